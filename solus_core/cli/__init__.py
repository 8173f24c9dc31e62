"""The ``solus`` command. click and rich come with the extra ``cli``; only the modules beside this one need them."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the ``solus`` script: runs it and exits with its code, see ``solus --help``."""
    try:
        import click  # noqa: F401, PLC0415  # looked for here, so that a missing extra is one line and no traceback
        import rich  # noqa: F401, PLC0415  # as above
    except ImportError:
        print("solus: the command line needs two more packages: pip install 'solus-core[cli]'", file=sys.stderr)
        sys.exit(2)
    try:
        from solus_core.cli.app import run  # noqa: PLC0415  # it imports click

        code = run()
    except KeyboardInterrupt:  # while modules are imported, say
        code = 130
    sys.exit(code)

"""The ``solus`` command: its subcommands, and the way every one of them ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any, final

import click

from solus_core.cli.dedup import dedup
from solus_core.cli.dedupers_cmd import dedupers
from solus_core.cli.failures import EXIT_ABORTED, EXIT_CLOSED_PIPE, EXIT_FAILURE, CommandError, reason_of
from solus_core.cli.plan_cmd import plan
from solus_core.cli.plugins_cmd import plugins
from solus_core.cli.stats_cmd import stats
from solus_core.cli.trouble import say, tell


@final
class _Solus(click.Group):
    """A group whose commands never end in a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            # What Python still wants to flush at exit must go somewhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return EXIT_CLOSED_PIPE
        except OSError as error:
            return _unwritable(error)
        except KeyboardInterrupt:
            return _aborted()
        except Exception as error:  # told in one line, whatever it is
            return tell(error)


@click.group(cls=_Solus, epilog="SOLUS_DEBUG=1 in the environment shows the traceback of an error.")
@click.version_option(version("solus-core"), prog_name="solus", message="%(prog)s %(version)s")
def solus() -> None:
    """Have I seen this id in the last N days? De-duplicates streams of events."""


solus.add_command(dedup)
solus.add_command(dedupers)
solus.add_command(plan)
solus.add_command(plugins)
solus.add_command(stats)


def run(args: Sequence[str] | None = None) -> int:
    """Run the command line (``sys.argv`` if ``args`` is None); answers the exit code."""
    code = _run(args)
    # Python writes what is left in its buffers at exit, and exits with 120 if it can't: so here, by our own rules.
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: it was closed before we began
        try:
            stream.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if stream is sys.stdout and code == 0:
                code = _unwritable(error)
    return code


def _run(args: Sequence[str] | None) -> int:
    if not _standard_streams():
        with suppress(OSError, AttributeError):
            print("solus: the standard output is closed", file=sys.stderr)
        return EXIT_FAILURE
    try:
        answer = solus.main(args=args, prog_name="solus", standalone_mode=False)
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        return error.exit_code
    except OSError as error:  # by --help or --version
        return _unwritable(error)
    except (click.Abort, KeyboardInterrupt):
        return _aborted()
    return answer if isinstance(answer, int) else 0


def _aborted() -> int:
    say("solus: aborted")
    return EXIT_ABORTED


def _unwritable(error: OSError) -> int:
    """Stores tell their failures as errors of ours, so this is one of the standard output."""
    return tell(CommandError(f"can't write the output: {reason_of(error)}"))


def _standard_streams() -> bool:
    """See that descriptors 0 to 2 are open: a store's file must never become "the output" by taking its number."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            if fd == 1:
                return False
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, so this one
    if sys.stderr is None:
        sys.stderr = open(2, "w", errors="backslashreplace", closefd=False)  # noqa: SIM115  # for as long as the process lives
    return True

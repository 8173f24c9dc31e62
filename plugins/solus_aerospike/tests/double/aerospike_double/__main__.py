"""``python -m aerospike_double --port 0``: a double as a process of its own; prints its port, ends with its stdin."""

from __future__ import annotations

import argparse
import sys

from aerospike_double.server import Double
from aerospike_double.store import Namespace


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(prog="python -m aerospike_double", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 for any free one")
    parser.add_argument("--namespace", action="append", default=[], help="as often as wanted; default: test")
    args = parser.parse_args()
    with Double([Namespace(name) for name in args.namespace], args.port) as double:
        print(double.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()

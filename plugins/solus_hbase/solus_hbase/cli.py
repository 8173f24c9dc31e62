"""The ``solus-hbase`` command: an HBase on this machine to try the backend on."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Final

from solus_hbase.dev_server import DevServerError, HBaseServer
from solus_hbase.dev_server.process import HOST, accepts

_CHECK_SECONDS: Final = 1
_DESCRIPTION = """\
Runs a whole HBase on 127.0.0.1 until Ctrl-C, and prints the URL to use. Needs Java 17 to 23, and Maven for the
first start, which downloads 110 MB. Takes about 500 MB of memory. Not for data that matter."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="solus-hbase", description="Tools of the HBase backend of Solus.")
    parser.add_argument("--version", action="version", version=f"solus-hbase {version('solus-hbase')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    server = commands.add_parser("dev-server", help="an HBase on this machine", description=_DESCRIPTION)
    server.add_argument("--port", type=_port, default=9090, help="of the Thrift gateway (default: %(default)s)")
    server.add_argument("--thrift", type=int, choices=(1, 2), default=2, help="its interface (default: %(default)s)")
    server.add_argument(
        "--data", type=Path, metavar="DIR", help="keep the data there between runs; they are dropped otherwise"
    )
    options = parser.parse_args(arguments)
    return dev_server(options.port, options.thrift, options.data)


def dev_server(port: int, thrift: int, data: Path | None) -> int:
    """Run a server until the process is told to end; answers the exit code."""
    with ExitStack() as handlers:
        for number in (signal.SIGINT, signal.SIGTERM):
            handlers.callback(signal.signal, number, signal.signal(number, _end))
        try:
            if accepts(port):
                raise DevServerError(f"port {port} of {HOST} is taken: choose another with --port")
            _say(f"starting HBase with Thrift{thrift}, {'dropped at the end' if data is None else f'kept in {data}'}")
            with HBaseServer(data, thrift=[thrift], ports={thrift: port}) as server:
                print(f"hbase://{server.host}:{port}/solus", flush=True)
                _say("ready; Ctrl-C ends it")
                while True:
                    server.check()
                    time.sleep(_CHECK_SECONDS)
        except DevServerError as error:
            _say(str(error))
            return 1
        except KeyboardInterrupt:
            return 0


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say(text: str) -> None:
    print(f"solus-hbase: {text}", file=sys.stderr, flush=True)


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is no port, allowed are whole numbers from 1 to 65535")
    return int(text)


if __name__ == "__main__":
    raise SystemExit(main())

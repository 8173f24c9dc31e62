"""How a command tells what went wrong: one line, an exit code, and a traceback only for who asks for it."""

from __future__ import annotations

import os
import traceback
from contextlib import suppress

import click

from solus_core.cli.failures import EXIT_CLOSED_PIPE, EXIT_FAILURE, CommandError, exit_code_of, one_line
from solus_core.errors import SolusError

DEBUG_VARIABLE = "SOLUS_DEBUG"


def say(text: str) -> None:
    """Write a line to stderr. That nobody can get it changes nothing about what the run did."""
    with suppress(OSError):
        click.echo(text, err=True)


def tell(error: Exception) -> int:
    """Say on stderr what happened (nothing if the output's reader has gone); answers the exit code."""
    debug = os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")
    if debug:
        say("".join(traceback.format_exception(error)))
    if isinstance(error, CommandError):
        code, text = error.exit_code, str(error)
    elif isinstance(error, SolusError):
        code, text = exit_code_of(error), str(error)
    else:
        hint = "" if debug else f"; set {DEBUG_VARIABLE}=1 to see where"
        code, text = EXIT_FAILURE, f"unexpected {type(error).__name__}: {error}{hint}"
    if code != EXIT_CLOSED_PIPE:
        say(f"solus: {one_line(text)}")
    return code

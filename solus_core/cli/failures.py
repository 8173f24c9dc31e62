"""What ends a command early, and the exit codes (documented in ``solus --help``)."""

from __future__ import annotations

from typing import Final, final

from solus_core.errors import ErrorCode, SolusError, StoreError

EXIT_FAILURE: Final = 1
EXIT_USAGE: Final = 2
EXIT_BAD_RECORD: Final = 3
EXIT_ABORTED: Final = 130
EXIT_CLOSED_PIPE: Final = 141

_USAGE_CODES: Final = frozenset(
    {
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_ARGUMENT,
        ErrorCode.DEDUPER_CONFIG_MISMATCH,
        ErrorCode.DEDUPER_NOT_FOUND,
        ErrorCode.PLUGIN_ERROR,
    }
)


@final
class CommandError(Exception):
    """A command can't go on. ``str()`` is one line for the user; ``exit_code`` is one of the above."""

    def __init__(self, message: str, exit_code: int = EXIT_FAILURE) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def exit_code_of(error: SolusError) -> int:
    """2 for what the user can put right on the command line, 1 for a store that fails or is damaged."""
    return EXIT_USAGE if error.code in _USAGE_CODES and not isinstance(error, StoreError) else EXIT_FAILURE


def reason_of(error: OSError) -> str:
    """The system's words, without the errno and the path that ``str(error)`` repeats."""
    return error.strerror or str(error)


def one_line(text: str) -> str:
    """``text`` on one line, safe for a terminal: a file's name or a message may hold control characters."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text.replace("\n", " "))

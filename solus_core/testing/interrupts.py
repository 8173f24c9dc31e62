"""Interrupts, as by Ctrl-C, at a line that the test chooses."""

from __future__ import annotations

import sys
from types import FrameType, ModuleType, TracebackType
from typing import Any, final


@final
class Interrupted:
    """``with Interrupted(module, line)``: ``KeyboardInterrupt`` when this thread first comes to that line.

    ``happened`` says whether it did.
    """

    def __init__(self, module: ModuleType, line: int) -> None:
        self.happened = False
        self._file = module.__file__
        self._line = line

    def __enter__(self) -> Interrupted:
        self._before = sys.gettrace()
        sys.settrace(self._enter)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        sys.settrace(self._before)

    def _enter(self, frame: FrameType, _event: str, _argument: object) -> Any:
        return self._at if frame.f_code.co_filename == self._file else None

    def _at(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line" and frame.f_lineno == self._line and not self.happened:
            self.happened = True
            raise KeyboardInterrupt
        return self._at

"""Expressions that are compiled once; each call fills in its values. Building one anew costs as much as a call."""

from __future__ import annotations

from typing import Any, final

from aerospike_helpers.expressions.resources import _BaseExpr, _ExprOp  # type: ignore[import-untyped]  # it has no types

Compiled = list[tuple[int, int | None, dict[str, Any] | None, int]]
"""What the driver takes: for each part of an expression operator, type, values, and number of children."""


@final
class Slot(_BaseExpr):  # type: ignore[misc]  # the driver has no types
    """Stands for a value that is filled in later, number ``index`` of those given to :meth:`Template.__call__`.

    May be put where an expression takes a value, another expression, or the name of a bin.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self._op = _ExprOp.VAL
        self._fixed = {"val": self}


@final
class Template:
    """An expression with slots."""

    __slots__ = ("_compiled", "_parts", "_values")

    def __init__(self, expression: Any) -> None:
        self._compiled: Compiled = expression.compile()
        found = [
            (i, part, name, value.index)
            for i, part in enumerate(self._compiled)
            for name, value in (part[2] or {}).items()
            if isinstance(value, Slot)
        ]
        # A value that is used several times needs one dict only.
        self._values = list(dict.fromkeys((name, index) for _, _, name, index in found))
        self._parts = [
            (i, operator, kind, self._values.index((name, index)), children)
            for i, (operator, kind, _, children), name, index in found
        ]

    def __call__(self, *values: Any) -> Compiled:
        """The expression with these values in its slots."""
        compiled = self._compiled.copy()
        filled = [{name: values[index]} for name, index in self._values]
        for i, operator, kind, which, children in self._parts:
            compiled[i] = (operator, kind, filled[which], children)
        return compiled

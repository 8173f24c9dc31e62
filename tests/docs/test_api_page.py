"""The page of the Python API says what the code says."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import solus_core
from solus_core import planning, sizing
from solus_core.errors import ErrorCode
from solus_core.handle import DeDuperHandle

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reference/python-api.md").read_text()
ROWS = re.findall(r"^\| `([\w.]+)(\(.*?\))?` \|", PAGE, re.MULTILINE)
OWNERS: tuple[Any, ...] = (solus_core, planning, sizing)


def named(dotted: str) -> Any:
    first, *rest = dotted.split(".")
    found = DeDuperHandle if first == "DeDuperHandle" else next(getattr(o, first) for o in OWNERS if hasattr(o, first))
    for name in rest:
        found = inspect.getattr_static(found, name) if rest[-1] == name else getattr(found, name)
    return found.__func__ if isinstance(found, classmethod) else found


def shown(call: Any) -> str:
    """The names of its parameters, as the page has them: ``(entity, ttl)``, ``(items, *, ttl)``."""
    parameters = [p for p in inspect.signature(call).parameters.values() if p.name not in ("self", "cls")]
    plain = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    return f"({', '.join([*plain, '*', *keywords] if keywords else plain)})"


@pytest.mark.parametrize(("name", "signature"), [row for row in ROWS if row[1]], ids=lambda value: value)
def test_a_signature_is_that_of_the_code(name: str, signature: str) -> None:
    assert shown(named(name)) == signature


@pytest.mark.parametrize("owner", [solus_core.SolusEngine, DeDuperHandle], ids=lambda owner: owner.__name__)
def test_no_method_is_missing(owner: type) -> None:
    public = {f"{owner.__name__}.{name}" for name in dir(owner) if not name.startswith("_")}
    assert {name for name, _ in ROWS if name.startswith(f"{owner.__name__}.")} == public


def test_no_public_name_is_missing() -> None:
    assert {name.partition(".")[0] for name, _ in ROWS} >= set(solus_core.__all__)


def test_every_error_code_has_its_place() -> None:
    headings = re.findall(r"^## (.*`)$", (ROOT / "docs/reference/errors.md").read_text(), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(headings))) == {code.value for code in ErrorCode}

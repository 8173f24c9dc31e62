"""A damaged state file is refused in words, or is none. Random bytes are fuzzed by the backend's own tests; here are
files that were ours, changed somewhere, with a checksum that is right for the change."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.needs_memory

FUZZ = settings.get_profile("solus-fuzz")
CHECKSUM = hashlib.sha256().digest_size
STORE = ["--store", "memory://{here}/state"]


@pytest.fixture
def state(command: Callable[..., Any]) -> bytes:
    done = command(["dedup", "-q", "--deduper", "d", *STORE], {}, b"a\nb\nc\n")
    assert done.code == 0
    kept: bytes = done.files["state"]
    assert hashlib.sha256(kept[:-CHECKSUM]).digest() == kept[-CHECKSUM:]
    return kept


@settings(FUZZ)
@given(
    at=st.integers(0, 700),
    cut=st.integers(0, 4),
    more=st.binary(max_size=4) | st.sampled_from([b"9", b"-", b"null", b"1e9", b"99999999999", b"}", b'"', b"[]"]),
    sealed=st.booleans(),
)
def test_any_changed_state_file(
    command: Callable[..., Any], state: bytes, at: int, cut: int, more: bytes, sealed: bool
) -> None:
    body = state[:-CHECKSUM]
    at %= len(body)
    body = body[:at] + more + body[at + cut :]
    changed = body + (hashlib.sha256(body).digest() if sealed else state[-CHECKSUM:])
    for args in (["dedupers", "list"], ["stats", "d"], ["dedup", "-q", "--deduper", "d"]):
        done = command([*args, *STORE], {"state": changed}, b"a\nz\n")
        event(f"exit code {done.code}")
        assert done.code in {0, 1, 2}
        assert "Traceback" not in done.err
        assert "solus: unexpected" not in done.err, done.err
        assert done.code == 0 or done.err.count("\n") == 1
        if done.code == 1:
            assert done.files["state"] == changed, "a file that is refused is left as it is"
        if changed != state and not sealed:
            assert done.code == 1

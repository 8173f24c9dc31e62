"""R12, R17: configs and names, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from solus_core import Atomicity, DeDuperConfig, ErrorCode, Level, SolusError
from solus_core.errors import BatchError, ConfigMismatchError, InvalidConfigError
from solus_core.model import check_deduper_name, check_identifier


def test_r12_defaults() -> None:
    config = DeDuperConfig()
    assert (config.hash_functions, config.shards, config.bits_per_shard) == (7, 1_000_000, 1_000)
    assert (config.level, config.expiry_seconds) == (Level.XDC, 864_000)


@pytest.mark.parametrize(
    ("field", "lowest", "highest"),
    [
        ("hash_functions", 7, 13),
        ("shards", 1_000_000, 150_000_000),
        ("bits_per_shard", 1_000, 30_000),
        ("expiry_seconds", 1, 316_224_000),
    ],
)
def test_r12_limits_are_inclusive(field: str, lowest: int, highest: int) -> None:
    for value in (lowest, highest):
        assert getattr(DeDuperConfig(**{field: value}), field) == value  # type: ignore[arg-type]  # fields by name
    for value in (lowest - 1, highest + 1):
        with pytest.raises(InvalidConfigError, match=f"{field} is {value}, allowed are .* {lowest:,} to {highest:,}"):
            DeDuperConfig(**{field: value})  # type: ignore[arg-type]  # fields by name


def test_r12_all_problems_are_reported_together() -> None:
    bad: dict[str, Any] = {
        "hash_functions": 6,
        "shards": True,
        "bits_per_shard": 1000.0,
        "level": "XDC",
        "expiry_seconds": None,
    }
    with pytest.raises(InvalidConfigError) as caught:
        DeDuperConfig(**bad)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert len(caught.value.problems) == len(bad)
    assert all(field in str(caught.value) for field in bad)


@pytest.mark.parametrize("good", ["a", "A-z_0.9", "x" * 100])
def test_r17_identifiers(good: str) -> None:
    assert check_identifier("client_id", good) == good


@pytest.mark.parametrize("bad", ["", "x" * 101, "a b", "a|b", "é", "a\n", "a/b"])
def test_r17_other_identifiers_are_refused(bad: str) -> None:
    with pytest.raises(SolusError, match=r"client_id is .*allowed are 1 to 100"):
        check_identifier("client_id", bad)


@pytest.mark.parametrize("good", ["coupons", "été 2026", "🎟️", "a/b:c%d..", "é" * 127, "x" * 255])
def test_r17_deduper_names(good: str) -> None:
    assert check_deduper_name(good) == good


@pytest.mark.parametrize("bad", ["", "a|b", "a\nb", "\x00", "a\x7f", "\x85", "é" * 128, "x" * 256, "a\ud800"])
def test_r17_other_deduper_names_are_refused(bad: str) -> None:
    with pytest.raises(SolusError) as caught:
        check_deduper_name(bad)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


@pytest.mark.parametrize("check", [check_deduper_name, lambda value: check_identifier("farm", value)])
@pytest.mark.parametrize("bad", [None, 1, b"x"])
def test_r17_names_are_text(check: Any, bad: Any) -> None:
    with pytest.raises(TypeError, match=type(bad).__name__):
        check(bad)


def test_atomicity_is_ordered() -> None:
    assert Atomicity.NONE < Atomicity.PROCESS < Atomicity.CLUSTER


def test_errors_survive_pickling() -> None:
    errors: list[SolusError] = [
        InvalidConfigError("x", ["a", "b"]),
        ConfigMismatchError("d", {"shards": (1, 2)}),
        BatchError(ErrorCode.HBASE_ERROR, "m", unprocessed=["a"], doubtful=["a"], answers={"b": True}),
    ]
    for error in errors:
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert (str(again), vars(again)) == (str(error), vars(error))

"""The hashers: exact on what the Java library computed, alike one at a time and in batches, and evenly spread."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from solus_core import DeDuperConfig
from solus_core.entities import Entity, encode
from solus_core.hashing import MurmurDoubleHasher, MurmurMd5Hasher, java_abs_mod
from solus_core.md5 import LONGEST
from solus_core.stores import Hasher

VECTORS = [
    json.loads(line) for line in (Path(__file__).parent.parent / "vectors/java_solus.jsonl").read_text().splitlines()
]
HASHERS: list[Hasher] = [MurmurMd5Hasher(), MurmurDoubleHasher()]

configs = st.builds(
    DeDuperConfig,
    hash_functions=st.integers(7, 13),
    shards=st.integers(1_000_000, 150_000_000),
    bits_per_shard=st.one_of(st.integers(1_000, 30_000), st.sampled_from([1_000, 1_024, 16_384, 30_000])),
)
entities = st.one_of(st.binary(max_size=70), st.binary(min_size=LONGEST - 2, max_size=LONGEST + 2))


def vector_config(row: dict[str, Any]) -> Any:
    """Not a DeDuperConfig: some vectors have values that ours refuses, to test the arithmetic."""
    return SimpleNamespace(
        hash_functions=row["hash_functions"], shards=row["shards"], bits_per_shard=row["bits_per_shard"]
    )


def vector_entity(row: dict[str, Any]) -> Entity:
    return int(row["entity"]) if row["entity_type"] == "int" else str(row["entity"])


def test_all_vectors_of_the_java_library_are_here() -> None:
    assert len(VECTORS) == 482
    assert sum(row["shard"] < 0 for row in VECTORS) == 12, "among them negative shards"
    assert sum(min(row["positions"]) < 0 for row in VECTORS) == 35, "and negative positions"


def test_murmur3_md5_equals_java_one_at_a_time() -> None:
    for row in VECTORS:
        shard, positions = MurmurMd5Hasher().probe(encode(vector_entity(row)), vector_config(row))
        assert (shard, list(positions)) == (row["shard"], row["positions"]), row


def test_murmur3_md5_equals_java_in_batches() -> None:
    by_config: dict[tuple[int, int, int], list[dict[str, Any]]] = {}
    for row in VECTORS:
        by_config.setdefault((row["hash_functions"], row["shards"], row["bits_per_shard"]), []).append(row)
    for rows in by_config.values():
        data = [encode(vector_entity(row)) for row in rows]
        shards, positions = MurmurMd5Hasher().probes(data, vector_config(rows[0]))
        assert shards.tolist() == [row["shard"] for row in rows]
        assert positions.tolist() == [row["positions"] for row in rows]


@pytest.mark.parametrize("bits", [32, 64])
def test_java_abs_mod_overflows_at_the_minimum_only(bits: int) -> None:
    minimum = -(2 ** (bits - 1))
    assert java_abs_mod(minimum, 1_000, minimum) == -(2 ** (bits - 1) % 1_000)
    assert java_abs_mod(minimum + 1, 1_000, minimum) == (2 ** (bits - 1) - 1) % 1_000


@pytest.mark.parametrize("hasher", HASHERS, ids=lambda hasher: hasher.name)
@given(data=st.lists(entities, max_size=12), config=configs)
@example(data=[b"", b"x" * LONGEST, b"x" * (LONGEST + 1), b"x" * 1_000], config=DeDuperConfig(hash_functions=13))
def test_one_at_a_time_and_batch_agree(hasher: Hasher, data: list[bytes], config: DeDuperConfig) -> None:
    shards, positions = hasher.probes(data, config)
    assert shards.dtype == np.int64
    assert shards.shape == (len(data),)
    assert positions.dtype == np.int32
    assert positions.shape == (len(data), config.hash_functions)
    for item, shard, row in zip(data, shards.tolist(), positions.tolist(), strict=True):
        one_shard, one_row = hasher.probe(item, config)
        assert (one_shard, list(one_row)) == (shard, row)
        assert abs(shard) < config.shards
        assert all(abs(position) < config.bits_per_shard for position in row)


@pytest.mark.parametrize("hasher", HASHERS, ids=lambda hasher: hasher.name)
def test_batches_longer_than_the_vectorised_step_agree_too(hasher: Hasher) -> None:
    config = DeDuperConfig()
    data = [b"%d" % i for i in range(9_000)]
    shards, positions = hasher.probes(data, config)
    for i in (0, 4_095, 4_096, 8_191, 8_192, 8_999):
        shard, row = hasher.probe(data[i], config)
        assert (shards[i], positions[i].tolist()) == (shard, list(row))


def test_murmur3_double_never_changes() -> None:
    """Stored data depend on these numbers: a change needs another name."""
    config = DeDuperConfig(hash_functions=13, shards=1_000_003, bits_per_shard=30_000)
    golden = [27657, 20438, 14451, 8749, 8117, 10582, 18220, 16273, 21977, 15112, 22478, 20376, 3096]
    assert MurmurDoubleHasher().probe(b"solus", config) == (730_885, golden)


@pytest.mark.parametrize("bits", [1_000, 1_001, 1_024, 4_096, 5_000, 16_384, 30_000])
@pytest.mark.parametrize("hasher", HASHERS, ids=lambda hasher: hasher.name)
def test_false_positives_are_as_rare_as_independent_positions_make_them(hasher: Hasher, bits: int) -> None:
    """No degenerate strides: near-identical keys in ONE shard, at a rate of about 1 in 500 and below."""
    config = DeDuperConfig(hash_functions=7, bits_per_shard=bits)
    members = round(0.0754 * bits)  # (1 - exp(-7 * 0.0754)) ** 7 is 0.0020
    _, positions = hasher.probes([b"event-%07d" % i for i in range(members)], config)
    taken = np.zeros(bits, np.bool_)
    taken[np.abs(positions)] = True
    _, probes = hasher.probes([b"event-%07d" % i for i in range(1_000_000, 1_200_000)], config)
    found = int(taken[np.abs(probes)].all(axis=1).sum())
    expected = len(probes) * float(taken.mean()) ** 7
    # Six standard deviations of a Poisson count: a false alarm once in 1e9 runs, and the keys are fixed anyway.
    assert abs(found - expected) < 6 * expected**0.5, (found, expected)


@pytest.mark.parametrize("hasher", HASHERS, ids=lambda hasher: hasher.name)
def test_positions_have_no_floor_of_false_positives(hasher: Hasher) -> None:
    """Double hashing by arithmetic progressions fails here: 13 positions of 1,000 give only 500,000 sets."""
    config = DeDuperConfig(hash_functions=13, bits_per_shard=1_000)
    _, positions = hasher.probes([b"%d" % i for i in range(20)], config)
    taken = np.zeros(1_000, np.bool_)
    taken[np.abs(positions)] = True
    found = 0
    for start in range(0, 1_000_000, 100_000):
        _, probes = hasher.probes([b"other-%d" % i for i in range(start, start + 100_000)], config)
        found += int(taken[np.abs(probes)].all(axis=1).sum())
    assert found <= 1, "expected 0.005 at a fill of 0.23; progressions give about 40"

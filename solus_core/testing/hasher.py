"""The contract of a hasher, as a test class to subclass."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from solus_core.model import BITS_PER_SHARD, HASH_FUNCTIONS, SHARDS, DeDuperConfig
from solus_core.stores import Hasher
from solus_core.testing.hashing_checks import (
    FEW_KEYS,
    chi_square,
    config_id,
    edges,
    false_positives,
    one_by_one,
    sequential_keys,
)

_CONFIGS: Final = st.builds(
    DeDuperConfig,
    hash_functions=st.integers(HASH_FUNCTIONS[0], HASH_FUNCTIONS[-1]),
    shards=st.integers(SHARDS[0], SHARDS[-1]),
    bits_per_shard=st.integers(BITS_PER_SHARD[0], BITS_PER_SHARD[-1]),
)

_IN_ANOTHER_PROCESS: Final = """
import importlib, importlib.util, json, pickle, sys
module, source, sys.path[:] = json.loads(sys.argv[1])
try:
    importlib.import_module(module)
except ImportError:
    spec = importlib.util.spec_from_file_location(module, source)
    sys.modules[module] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[module])
hasher, keys, config = pickle.load(sys.stdin.buffer)
shards, positions = hasher.probes(keys, config)
one = [hasher.probe(key, config) for key in keys]
json.dump([shards.tolist(), positions.tolist(), [int(s) for s, _ in one], [[int(p) for p in ps] for _, ps in one]],
          sys.stdout)
"""


def assert_shape(array: NDArray[Any], dtype: type[np.integer[Any]], *shape: int) -> None:
    assert isinstance(array, np.ndarray)
    assert array.dtype == dtype
    assert array.shape == shape


class HasherContract:
    """All that a :class:`~solus_core.stores.Hasher` promises. Subclass it and give it one fixture::

    class TestMine(HasherContract):
        @pytest.fixture
        def hasher(self):
            return MyHasher()
    """

    @pytest.fixture
    def hasher(self) -> Hasher:
        """To be overridden: the hasher under test."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture hasher, see HasherContract")

    def test_name(self, hasher: Hasher) -> None:
        """H1 (R18): a hasher has a name that can be recorded: printable ASCII without spaces."""
        assert isinstance(hasher.name, str)
        assert 1 <= len(hasher.name) <= 100
        assert hasher.name.isascii()
        assert hasher.name.isprintable()
        assert not set(hasher.name) & set(" |")

    def test_one_and_many_agree(self, hasher: Hasher) -> None:
        """H2 (R1, R2): one at a time and in a batch, an entity has the same shard and positions, bit for bit."""

        @settings(deadline=None)
        @given(keys=st.lists(st.binary(max_size=300), max_size=20), config=_CONFIGS)
        def check(keys: list[bytes], config: DeDuperConfig) -> None:
            shards, positions = hasher.probes(keys, config)
            assert (shards.tolist(), positions.tolist()) == one_by_one(hasher, keys, config)

        check()

    def test_large_batch_in_order(self, hasher: Hasher) -> None:
        """H3 (R6): each row of a large batch, of keys of many lengths, is that of its own key."""
        keys = [b"k" * (i % 130) + str(i).encode() for i in range(5_000)]
        config = DeDuperConfig(hash_functions=13, bits_per_shard=30_000)
        shards, positions = hasher.probes(keys, config)
        sample = range(0, 5_000, 7)
        alone = one_by_one(hasher, [keys[i] for i in sample], config)
        assert (shards[list(sample)].tolist(), positions[list(sample)].tolist()) == alone

    def test_shape_and_range(self, hasher: Hasher) -> None:
        """H4 (R12): int64 ``(n,)`` and int32 ``(n, k)``, both smaller than their limit; negative is allowed."""

        @settings(deadline=None)
        @given(keys=st.lists(st.binary(max_size=40), max_size=20), config=_CONFIGS)
        @example(keys=sequential_keys(20_000), config=DeDuperConfig())
        def check(keys: list[bytes], config: DeDuperConfig) -> None:
            shards, positions = hasher.probes(keys, config)
            assert_shape(shards, np.int64, len(keys))
            assert_shape(positions, np.int32, len(keys), config.hash_functions)
            assert (np.abs(shards) < config.shards).all()
            assert (np.abs(positions) < config.bits_per_shard).all()

        check()

    def test_single_probe_is_plain(self, hasher: Hasher) -> None:
        """H5 (R12): one probe is an ``int`` and ``k`` ``int``, which drivers take where numpy's numbers fail."""
        for k in HASH_FUNCTIONS:
            shard, positions = hasher.probe(b"key", DeDuperConfig(hash_functions=k))
            assert type(shard) is int
            assert [type(position) for position in positions] == [int] * k

    def test_empty_batch(self, hasher: Hasher) -> None:
        """H6 (R7): no keys give arrays of no rows, with ``k`` columns."""
        shards, positions = hasher.probes([], DeDuperConfig(hash_functions=9))
        assert_shape(shards, np.int64, 0)
        assert_shape(positions, np.int32, 0, 9)

    def test_empty_key_and_odd_bytes(self, hasher: Hasher) -> None:
        """H7 (R20, R21): the empty key, NULs at the end and bytes that aren't UTF-8 are keys of their own."""
        keys = [b"", b"\0", b"\0\0", b"a", b"a\0", b"\0a", b"\xff", b"\xff\xfe", b"a" * 1_000_000]
        assert len(self._distinct(*hasher.probes(keys, DeDuperConfig()))) == len(keys)

    def test_same_in_another_process(self, hasher: Hasher) -> None:
        """H8 (R2): a fresh process, with other hash seeds, finds every key where this one put it."""
        keys, config = [*FEW_KEYS, *sequential_keys(50)], DeDuperConfig(shards=77_777_777, bits_per_shard=29_989)
        kind = type(hasher)
        try:
            message = pickle.dumps((hasher, keys, config))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            pytest.skip(f"this hasher can't be sent to another process: {error}")
        shards, positions = hasher.probes(keys, config)
        alone = one_by_one(hasher, keys, config)
        for seed in ("1", "2"):
            run = subprocess.run(
                [
                    sys.executable,
                    "-c",
                    _IN_ANOTHER_PROCESS,
                    json.dumps([kind.__module__, inspect.getsourcefile(kind), sys.path]),
                ],
                input=message,
                env={**os.environ, "PYTHONHASHSEED": seed},
                capture_output=True,
                check=False,
                timeout=120,
            )
            assert run.returncode == 0, run.stderr.decode()
            assert json.loads(run.stdout) == [shards.tolist(), positions.tolist(), *alone], f"hash seed {seed}"

    def test_again_is_the_same(self, hasher: Hasher) -> None:
        """H9 (R2): hashing keeps no state: the same keys in another order and company give the same probes."""
        keys, config = sequential_keys(200), DeDuperConfig()
        shards, positions = hasher.probes(keys, config)
        back = hasher.probes(keys[::-1], config)
        assert np.array_equal(back[0][::-1], shards)
        assert np.array_equal(back[1][::-1], positions)

    @pytest.mark.parametrize("config", edges(), ids=config_id)
    def test_spread(self, hasher: Hasher, config: DeDuperConfig) -> None:
        """H10 (R2): shards and each column of positions are spread evenly (chi-square, 20,000 keys)."""
        shards, positions = hasher.probes(sequential_keys(20_000), config)
        assert chi_square(shards, config.shards) < 200, "shards are uneven"  # mean 99, 7 standard deviations
        for column in range(config.hash_functions):
            assert chi_square(positions[:, column], config.bits_per_shard) < 200, f"column {column} is uneven"

    @pytest.mark.parametrize("config", edges(), ids=config_id)
    def test_few_repeats_inside_a_probe(self, hasher: Hasher, config: DeDuperConfig) -> None:
        """H11 (R3): positions of one entity repeat as seldom as independent ones (no degenerate strides)."""
        k, bits = config.hash_functions, config.bits_per_shard
        _, positions = hasher.probes(sequential_keys(20_000), config)
        ordered = np.sort(positions, axis=1)
        distinct = 1 + np.count_nonzero(np.diff(ordered, axis=1), axis=1)
        expected = bits * (1 - (1 - 1 / bits) ** k)
        assert distinct.mean() > expected - 0.02
        # Two repeats happen, four are the mark of a stride that meets itself.
        assert (distinct <= k - 4).mean() < 0.000_5

    @pytest.mark.parametrize("config", edges(), ids=config_id)
    def test_false_positives(self, hasher: Hasher, config: DeDuperConfig) -> None:
        """H12 (R2): false positives of a filter at 10 positions a key are as few as the formula says."""
        measured, expected, deviation = false_positives(hasher, config)
        assert measured < 1.15 * expected + 4 * deviation, f"measured {measured:.4%}, expected {expected:.4%}"

    def test_near_identical_keys(self, hasher: Hasher) -> None:
        """H13 (R2): keys that differ in one bit, or in length, have shards and positions of their own."""
        base = b"order-2024-000000000001"
        keys = [base]
        keys += [bytes([*base[:i], base[i] ^ (1 << bit), *base[i + 1 :]]) for i in range(len(base)) for bit in range(8)]
        keys += [base + b"0" * i for i in range(1, 40)]
        shards, positions = hasher.probes(keys, DeDuperConfig(shards=150_000_000, bits_per_shard=30_000))
        assert len(np.unique(shards)) >= len(keys) - 1
        assert len(self._distinct(shards, positions)) == len(keys)
        same_as_base = (np.sort(positions, axis=1)[1:] == np.sort(positions[0])).mean()
        assert same_as_base < 0.01

    @staticmethod
    def _distinct(shards: NDArray[np.int64], positions: NDArray[np.int32]) -> set[tuple[int, frozenset[int]]]:
        rows: Sequence[Sequence[int]] = positions.tolist()
        return {(shard, frozenset(row)) for shard, row in zip(shards.tolist(), rows, strict=True)}

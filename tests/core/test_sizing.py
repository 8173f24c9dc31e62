"""The smallest config for a number of keys and a rate; what backends need for it."""

from __future__ import annotations

from importlib import import_module
from itertools import chain
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from solus_core import DeDuperConfig, SolusError
from solus_core.errors import InvalidArgumentError
from solus_core.hashing import MurmurDoubleHasher
from solus_core.model import BITS_PER_SHARD, SHARDS
from solus_core.planning import average_false_positive_rate, expected_losses, false_positive_rate
from solus_core.sizing import BITS_GRID, SHARDS_GRID, best, choices, describe, memory_bytes, smallest

# Together they cover sparse and dense tables, the limits, and what can't be had.
KEYS = st.floats(0, 10).map(lambda power: round(10**power))
RATES = st.floats(-11, -0.05).map(lambda power: 10**power)
FEW = settings(max_examples=20, deadline=None)


def test_the_grids_are_round_and_within_the_limits() -> None:
    """R12; three significant digits of shards, two of positions."""
    assert (SHARDS_GRID[0], SHARDS_GRID[-1]) == (SHARDS[0], SHARDS[-1])
    assert (BITS_GRID[0], BITS_GRID[-1]) == (BITS_PER_SHARD[0], BITS_PER_SHARD[-1])
    assert list(BITS_GRID) == sorted(set(BITS_GRID))
    assert list(SHARDS_GRID) == sorted(set(SHARDS_GRID))
    assert all(len(str(n).rstrip("0")) <= 3 for n in chain(SHARDS_GRID, BITS_GRID))
    assert len(SHARDS_GRID) == 900 + 900 + 51, "none is left out"


@FEW
@given(keys=KEYS, rate=RATES)
@example(keys=3 * 10**9, rate=0.95)  # where uneven shards help, and the textbook asks for too many of them
def test_every_choice_keeps_the_rate_and_one_step_fewer_shards_does_not(keys: int, rate: float) -> None:
    found = choices(keys, rate)
    functions = [choice.config.hash_functions for choice in found]
    assert functions == sorted(set(functions))
    for choice in found:
        config = choice.config
        assert choice.rate == false_positive_rate(config, keys) <= rate
        step = SHARDS_GRID.index(config.shards)
        if step:
            fewer = DeDuperConfig(
                hash_functions=config.hash_functions,
                bits_per_shard=config.bits_per_shard,
                shards=SHARDS_GRID[step - 1],
            )
            assert false_positive_rate(fewer, keys) > rate


@FEW
@given(keys=KEYS, rate=RATES, others=st.lists(st.tuples(st.integers(7, 13), st.sampled_from(BITS_GRID)), max_size=6))
def test_nothing_on_the_grid_is_smaller(keys: int, rate: float, others: list[tuple[int, int]]) -> None:
    """Also not what a plain search through all steps finds, without a bracket."""
    chosen = memory_bytes(smallest(keys, rate), keys)
    for functions, bits in others:
        low, high = 0, len(SHARDS_GRID)
        while low < high:
            middle = (low + high) // 2
            config = DeDuperConfig(hash_functions=functions, bits_per_shard=bits, shards=SHARDS_GRID[middle])
            if false_positive_rate(config, keys) <= rate:
                high = middle
            else:
                low = middle + 1
        if low < len(SHARDS_GRID):
            config = DeDuperConfig(hash_functions=functions, bits_per_shard=bits, shards=SHARDS_GRID[low])
            assert memory_bytes(config, keys) >= chosen


@FEW
@given(keys=KEYS, rate=RATES, more=st.floats(1, 3), worse=st.floats(1, 10))
def test_more_keys_never_need_less_and_a_worse_rate_never_more(
    keys: int, rate: float, more: float, worse: float
) -> None:
    size = best(choices(keys, rate)).memory_bytes
    assert best(choices(keys, min(0.95, rate * worse))).memory_bytes <= size
    assert best(choices(round(keys * more), rate)).memory_bytes >= size


def test_few_keys_get_the_default() -> None:
    assert smallest(1_000, 0.001) == DeDuperConfig()
    assert smallest(10_000_000, 1e-6) == DeDuperConfig()


def test_a_known_choice() -> None:
    """100 million keys at 0.1%: 6 GB of 4-byte stamps; independent positions in one even filter would need 5.75."""
    config = smallest(100_000_000, 0.001)
    assert config == DeDuperConfig(hash_functions=8, bits_per_shard=1_500, shards=1_000_000)
    chosen = describe(config, 100_000_000)
    assert chosen.memory_bytes == 6_000_000_000
    assert chosen.average_rate == average_false_positive_rate(config, 100_000_000)
    assert chosen.expected_losses == expected_losses(config, 100_000_000)


def test_a_known_choice_with_many_shards() -> None:
    """More shards of fewer positions, where that is less in all: no search by shards or positions alone finds it."""
    config = smallest(1_728_000_000, 1e-6)
    assert config == DeDuperConfig(hash_functions=13, bits_per_shard=20_000, shards=2_670_000)


def test_bytes_by_hand() -> None:
    """One key of the default config has its positions (7, rarely one less), in one shard."""
    one = describe(DeDuperConfig(), 1)
    positions = 1_000 * (1 - 0.999**7)
    assert one.memory_bytes == round(positions * 1.4 / 0.8 * 8)
    assert one.aerospike_bytes == round(positions * 12.1 + 164)
    assert one.hbase_bytes == round(positions * 75)
    # Beyond 32 bits a slot takes 12 bytes.
    large = describe(DeDuperConfig(shards=5_000_000), 1)
    assert large.memory_bytes == round(positions * 1.4 / 0.8 * 12)


def test_more_slots_than_a_sparse_table_has_are_counted_as_a_dense_one() -> None:
    config = DeDuperConfig(bits_per_shard=30_000, shards=10_000_000)
    assert memory_bytes(config, 300_000_000) < 4 * 3 * 10**11
    assert memory_bytes(config, 400_000_000) == 4 * 3 * 10**11


@pytest.mark.needs_memory
@pytest.mark.parametrize(
    ("config", "forms"),
    [
        # The smallest allowed table has 4 GB when dense: a stand-in with fewer positions fills up in a moment.
        (SimpleNamespace(hash_functions=7, bits_per_shard=100, shards=20_000, expiry_seconds=9_000), {False, True}),
        (DeDuperConfig(shards=5_000_000), {False}),
    ],
    ids=["sparse slots of 8 bytes, then dense", "sparse slots of 12 bytes"],
)
def test_the_in_memory_table_takes_what_is_said_of_it(config: Any, forms: set[bool]) -> None:
    """At most that (and 5% for repeated positions of a batch), and no less than the steps it grows in."""
    table = import_module("solus_memory.numpy_table").NumpyTable(config, 0, lambda needed, held: None)
    hasher, step, dense = MurmurDoubleHasher(), 4_000, set()
    for first in range(0, 40 * step, step):
        table.add(*hasher.probes([b"key-%d" % i for i in range(first, first + step)], config), 0, 1_000)
        said = memory_bytes(config, first + step)
        assert said / 1.45 <= table.nbytes <= said * 1.05
        dense.add(table.nbytes == 4 * config.shards * config.bits_per_shard)
    assert dense == forms


def test_what_no_config_keeps_says_what_can_be_had() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        choices(10**12, 1e-9)
    message = str(caught.value)
    assert "1e-09 with 1,000,000,000,000 keys" in message
    assert "0.19 with so many keys" in message
    most = int(message.partition(", or ")[2].split()[0].replace(",", ""))
    assert choices(most, 1e-9)
    with pytest.raises(InvalidArgumentError):
        choices(most + 10**9, 1e-9)


def test_a_rate_that_not_even_one_key_keeps() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        choices(1, 1e-200)
    assert "keys at that rate" not in str(caught.value)


@pytest.mark.parametrize("rate", [np.nextafter(1, 0).item(), 1e-30])
def test_the_ends_of_the_rates(rate: float) -> None:
    assert choices(1_000, rate)


@pytest.mark.parametrize(
    ("keys", "rate", "said"),
    [
        (100, 5, "was 0.05 meant"),
        (0.001, 100_000_000, "were keys and rate swapped"),
        (0, 0.1, "allowed are 1 to"),
        (10**16, 0.1, "allowed are 1 to"),
    ],
)
def test_row_8_wishes_that_make_no_sense(keys: Any, rate: float, said: str) -> None:
    with pytest.raises(SolusError) as caught:
        choices(keys, rate)
    assert said in str(caught.value)


def test_keys_are_an_int() -> None:
    keys: Any = 1e6
    with pytest.raises(TypeError, match="not float"):
        choices(keys, 0.1)

"""Statements about single records: values, policies, generations, TTLs, keys, limits."""

from __future__ import annotations

from typing import Any

import aerospike
import numpy
from aerospike_helpers import expressions as e  # type: ignore[import-untyped]  # it has no types
from aerospike_helpers.operations import operations  # type: ignore[import-untyped]  # it has no types
from aerospike_helpers.operations.expression_operations import expression_write  # type: ignore[import-untyped]  # it has no types

from aerospike_statements.bench import Bench, Failed, Table, attempt

table = Table()
row = table.row

VALUES: dict[str, Any] = {
    "int": -(1 << 63),
    "most": (1 << 63) - 1,
    "text": "naïve ☃",
    "blob": b"\0\xff",
    "yes": True,
    "no": False,
    "half": 1.5,
    "map": {1: 10, -7: "x", "k": b"v", "deep": {1: [1, {2: 3}]}},
    "list": [1, "a", b"b", 1.5, True, None, {1: 2}],
}


def _lasts(b: Bench, seconds: int) -> bool:
    return seconds - 2 <= b.meta()["ttl"] <= seconds


NEVER = 0xFFFFFFFF


@row("issue 6: values", VALUES)
def every_kind_of_value(b: Bench) -> Any:
    b.put(VALUES)
    return b.bins()


@row("issue 6: put", {"a": 1, "b": 3})
def put_keeps_other_bins(b: Bench) -> Any:
    b.put({"a": 1, "b": 2})
    b.put({"b": 3})
    return b.bins()


@row("issue 6: put", {"b": 2})
def a_bin_of_none_is_deleted(b: Bench) -> Any:
    b.put({"a": 1, "b": 2})
    b.put({"a": aerospike.null()})
    return b.bins()


@row("facts: behaviour", Failed(2))
def a_record_without_bins_is_gone(b: Bench) -> Any:
    b.put({"a": 1})
    b.put({"a": aerospike.null()})
    return attempt(b.bins)


@row("facts: get/select/operate of what is missing", [Failed(2), Failed(2), Failed(2), None])
def reading_what_is_missing(b: Bench) -> Any:
    return [
        attempt(b.bins),
        attempt(lambda: b.client.select(b.key(), ["a"])),
        attempt(lambda: b.operate(operations.read("a"))),
        b.client.exists(b.key())[1],
    ]


@row("facts: select", [{"a": 1}, {}, Failed(4)])
def selecting_bins(b: Bench) -> Any:
    b.put({"a": 1, "b": 2})
    return [
        b.client.select(b.key(), ["a", "no"])[2],
        b.client.select(b.key(), ["no"])[2],
        attempt(lambda: b.client.select(b.key(), [])),
    ]


@row("issue 6: exists, remove", [1, 0, Failed(2), None])
def existing_and_removing(b: Bench) -> Any:
    b.put({"a": 1})
    there = b.client.exists(b.key())[1]["gen"]
    gone = b.client.remove(b.key())
    return [there, gone, attempt(lambda: b.client.remove(b.key())), b.client.exists(b.key())[1]]


@row("issue 6: touch", [2, True, Failed(2), True, True])
def touching(b: Bench) -> Any:
    b.put({"a": 1})
    b.client.touch(b.key(), 500)
    meta = b.meta()
    missing = attempt(lambda: b.client.touch(b.key("no"), 500))
    b.operate(operations.touch(), ttl=700)
    by_policy = _lasts(b, 700)
    # The trap: the argument counts, also when it is 0, and then the policy's ttl doesn't.
    b.client.touch(b.key(), 0, policy={"ttl": 500})
    return [meta["gen"], 498 <= meta["ttl"] <= 500, missing, by_policy, b.meta()["ttl"] == NEVER]


@row("facts: operate is atomic and ordered", [{"a": 5}, {"a": 5, "b": 1}])
def operations_run_in_order(b: Bench) -> Any:
    b.put({"a": 2})
    found = b.operate(operations.increment("a", 3), operations.write("b", 1), operations.read("a"))
    return [found, b.bins()]


@row("facts: operate answers by bin", [{"a": 2}, [1, 2]])
def answers_by_bin_and_in_order(b: Bench) -> Any:
    b.put({"a": 1})
    ops = [operations.read("a"), operations.write("a", 2), operations.read("a")]
    by_bin = b.operate(*ops)
    b.put({"a": 1})
    return [by_bin, b.ordered(*ops)]


@row("facts: operate is atomic", [Failed(12), {"a": "text"}, 1])
def a_command_that_fails_changes_nothing(b: Bench) -> Any:
    b.put({"a": "text"})
    found = attempt(lambda: b.operate(operations.write("b", 1), operations.increment("a", 1)))
    return [found, b.bins(), b.meta()["gen"]]


@row("R13: insert if absent", [Failed(5), {"a": 1}])
def create_only(b: Bench) -> Any:
    b.put({"a": 1}, exists=aerospike.POLICY_EXISTS_CREATE)
    again = attempt(lambda: b.put({"a": 2}, exists=aerospike.POLICY_EXISTS_CREATE))
    return [again, b.bins()]


@row("issue 6: update only", [Failed(2), {"a": 2, "b": 1}])
def update_only(b: Bench) -> Any:
    missing = attempt(lambda: b.put({"a": 1}, exists=aerospike.POLICY_EXISTS_UPDATE))
    b.put({"a": 1, "b": 1})
    b.put({"a": 2}, exists=aerospike.POLICY_EXISTS_UPDATE)
    return [missing, b.bins()]


@row("issue 6: replace", [{"b": 1}, Failed(2)])
def replacing(b: Bench) -> Any:
    b.put({"a": 1})
    b.put({"b": 1}, exists=aerospike.POLICY_EXISTS_CREATE_OR_REPLACE)
    missing = attempt(lambda: b.put({"a": 1}, "no", exists=aerospike.POLICY_EXISTS_REPLACE))
    return [b.bins(), missing]


@row("issue 6: a replace that leaves nothing", [Failed(2), {"a": 1}])
def replacing_by_nothing(b: Bench) -> Any:
    b.put({"a": 1})
    nothing = expression_write("b", e.Add(e.IntBin("no"), 1).compile(), aerospike.EXP_WRITE_EVAL_NO_FAIL)
    return [attempt(lambda: b.operate(nothing, exists=aerospike.POLICY_EXISTS_REPLACE)), b.bins()]


@row("facts: generations", [None, Failed(3), {"a": 2}, 2, Failed(3)])
def generations(b: Bench) -> Any:
    def put_at(generation: int, value: int, name: str = "k") -> None:
        b.client.put(b.key(name), {"a": value}, {"gen": generation}, {"gen": aerospike.POLICY_GEN_EQ})

    b.put({"a": 1})
    right = attempt(lambda: put_at(1, 2))
    wrong = attempt(lambda: put_at(1, 3))
    return [right, wrong, b.bins(), b.meta()["gen"], attempt(lambda: put_at(4, 1, "new"))]


@row("facts: generations", [Failed(3), 0])
def removing_one_generation(b: Bench) -> Any:
    b.put({"a": 1})

    def remove(generation: int) -> Any:
        return b.client.remove(b.key(), policy={"gen": aerospike.POLICY_GEN_EQ, "generation": generation})

    return [attempt(lambda: remove(7)), remove(1)]


@row("R10, facts: a write without ttl resets it", [True, True, True, True, True])
def ttls(b: Bench) -> Any:
    b.put({"a": 1}, ttl=1000)
    first = _lasts(b, 1000)
    b.put({"a": 1}, ttl=500)
    shorter = _lasts(b, 500)
    b.put({"a": 1}, ttl=aerospike.TTL_DONT_UPDATE)
    kept = _lasts(b, 500)
    b.put({"a": 1})
    reset = b.meta()["ttl"] == NEVER
    b.put({"a": 1}, ttl=600)
    b.put({"a": 1}, ttl=aerospike.TTL_NEVER_EXPIRE)
    return [first, shorter, kept, reset, b.meta()["ttl"] == NEVER]


@row("R10", [True, True])
def the_ttl_kept_by_a_new_record(b: Bench) -> Any:
    b.put({"a": 1}, ttl=aerospike.TTL_DONT_UPDATE)
    fresh = b.meta()["ttl"] == NEVER
    b.operate(operations.write("a", 2), ttl=300)
    return [fresh, _lasts(b, 300)]


TEN_YEARS = 3600 * 24 * 365 * 10


@row("facts: at most ten years", [True, Failed(4)])
def the_longest_ttl(b: Bench) -> Any:
    b.put({"a": 1}, ttl=TEN_YEARS)
    return [_lasts(b, TEN_YEARS), attempt(lambda: b.put({"a": 1}, ttl=TEN_YEARS + 1))]


@row("facts: the key is sent or not", [None, "k"])
def keys_are_stored_when_sent(b: Bench) -> Any:
    def keys() -> Any:
        return [found[0][2] for found in b.client.query(b.namespace, b.set).results({"total_timeout": 5000})]

    b.put({"a": 1})
    before = keys()
    b.put({"a": 1}, key=aerospike.POLICY_KEY_SEND)
    b.put({"a": 2})
    return [*before, *keys()]


@row("facts: keys", [{"a": "int"}, {"a": "text"}, {"a": "blob"}])
def kinds_of_keys(b: Bench) -> Any:
    keys: dict[str, Any] = {"int": 1, "text": "1", "blob": bytearray(b"1")}
    for kind, key in keys.items():
        b.put({"a": kind}, key, key=aerospike.POLICY_KEY_SEND)
    return [b.bins(key) for key in keys.values()]


@row("facts: unknown namespace", [Failed(20), Failed(20)])
def a_namespace_that_is_not_there(b: Bench) -> Any:
    key = ("nowhere", b.set, "k")
    return [attempt(lambda: b.client.put(key, {"a": 1})), attempt(lambda: b.client.get(key))]


@row("facts: bin names", [{"a" * 15: 1}, Failed(21), Failed(21)])
def long_bin_names(b: Bench) -> Any:
    b.put({"a" * 15: 1})
    long = "a" * 16
    return [b.bins(), attempt(lambda: b.put({long: 1})), attempt(lambda: b.operate(operations.write(long, 1)))]


@row("facts: select truncates a long name", {"a" * 15: 1})
def select_of_a_long_name(b: Bench) -> Any:
    b.put({"a" * 15: 1})
    return attempt(lambda: b.client.select(b.key(), ["a" * 16])[2])


@row("facts: set names", [1, Failed(-2)])
def long_set_names(b: Bench) -> Any:
    def put(length: int) -> Any:
        key = (b.namespace, b.set.ljust(length, "x"), "k")
        b.client.put(key, {"a": 1})
        return b.client.get(key)[2]["a"]

    return [put(63), attempt(lambda: put(64))]


@row("facts: one put of 32,768 bins", [32_767, Failed(4), 32_767])
def most_bins_of_a_record(b: Bench) -> Any:
    for start in range(0, 32_767, 1_000):
        b.put({f"b{number}": number for number in range(start, min(start + 1_000, 32_767))}, total_timeout=10_000)
    one_more = attempt(lambda: b.put({"over": 1}))

    def count() -> int:
        return len(b.client.get(b.key(), policy={"total_timeout": 10_000})[2])

    return [count(), one_more, count()]


@row("facts: 32,768 operations a command", [32_768, Failed(4)])
def most_operations_of_a_command(b: Bench) -> Any:
    b.put({"a": 1})

    def answers(count: int) -> int:
        return len(b.ordered(*[operations.read("a")] * count, total_timeout=10_000))

    return [answers(32_768), attempt(lambda: answers(32_769))]


@row("facts: numpy ints are refused", [Failed(-2), Failed(-2), Failed(-2), {"a": 7}])
def numpy_ints(b: Bench) -> Any:
    seven = numpy.int64(7)
    found = [
        attempt(lambda: b.put({"a": seven})),
        attempt(lambda: b.put({"a": 7}, seven)),
        attempt(lambda: b.put({"a": 7}, ttl=seven)),
    ]
    b.put({"a": int(seven)})
    return [*found, b.bins()]


@row("facts: record size", [None, Failed(13), 1_000_000])
def most_bytes_of_a_record(b: Bench) -> Any:
    fits = attempt(lambda: b.put({"a": b"x" * 1_000_000}, total_timeout=5_000))
    more = attempt(lambda: b.put({"b": b"x" * 50_000}, total_timeout=5_000))
    return [fits, more, len(b.bins()["a"])]


@row("facts: record size, to the byte", [None, Failed(13)])
def the_last_byte_of_a_record(b: Bench) -> Any:
    # 35 of the record, 13 + 1 of the set, 1 for the number of bins, 2 of the name, 5 of the blob, 4 at the end.
    room = (1 << 20) - 35 - 14 - 1 - 2 - 5 - 4
    fits = attempt(lambda: b.put({"a": b"x" * room}, total_timeout=5_000))
    return [fits, attempt(lambda: b.put({"a": b"x" * (room + 1)}, total_timeout=5_000))]

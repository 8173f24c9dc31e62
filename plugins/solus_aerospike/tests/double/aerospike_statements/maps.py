"""Statements about maps as bins: what the layout ``map`` and the metadata are made of."""

from __future__ import annotations

from typing import Any

import aerospike
from aerospike_helpers import cdt_ctx  # type: ignore[import-untyped]  # it has no types
from aerospike_helpers.operations import map_operations as maps  # type: ignore[import-untyped]  # it has no types
from aerospike_helpers.operations import operations

from aerospike_statements.bench import Bench, Failed, Table, attempt

table = Table()
row = table.row

ORDERED = {"map_order": aerospike.MAP_KEY_ORDERED}
COUNT, KEYS, VALUES, PAIRS = (
    aerospike.MAP_RETURN_COUNT,
    aerospike.MAP_RETURN_KEY,
    aerospike.MAP_RETURN_VALUE,
    aerospike.MAP_RETURN_KEY_VALUE,
)
AS_MAP, EXISTS, NOTHING = aerospike.MAP_RETURN_ORDERED_MAP, aerospike.MAP_RETURN_EXISTS, aerospike.MAP_RETURN_NONE
POSITIONS = {7: 700, -3: 100, 40: 400, 12: 300}


def _filled(b: Bench) -> None:
    b.operate(maps.map_put_items("m", dict(POSITIONS), ORDERED))


@row("issue 6: map layout", [4, {"m": POSITIONS}, [-3, 7, 12, 40]])
def items_make_an_ordered_map(b: Bench) -> Any:
    made = b.operate(maps.map_put_items("m", dict(POSITIONS), ORDERED))["m"]
    return [made, b.bins(), list(b.bins()["m"])]


@row("facts: map_put_items overwrites", [5, {7: 1, -3: 100, 40: 400, 12: 300, 8: 2}])
def items_overwrite(b: Bench) -> Any:
    _filled(b)
    return [b.operate(maps.map_put_items("m", {7: 1, 8: 2}, ORDERED))["m"], b.bins()["m"]]


@row("issue 6: map_put", [1, 2, {"m": {3: 9, 4: b"x"}}])
def putting_one(b: Bench) -> Any:
    first = b.operate(maps.map_put("m", 3, 9, ORDERED))["m"]
    return [first, b.operate(maps.map_put("m", 4, b"x", ORDERED))["m"], b.bins()]


@row("issue 6: map of maps", {"m": {"dc1": {"name": "d", "hf": 7, "active": True}, "dc2": {"x": [1, {2: b"3"}]}}})
def maps_of_maps(b: Bench) -> Any:
    b.operate(maps.map_put("m", "dc1", {"name": "d", "hf": 7, "active": True}, ORDERED))
    b.operate(maps.map_put("m", "dc2", {"x": [1, {2: b"3"}]}, ORDERED))
    return b.bins()


@row("issue 6: map of maps", [2, {"m": {"dc1": {"a": 1, "b": 2}}}, Failed(26)])
def a_field_inside(b: Bench) -> Any:
    b.operate(maps.map_put("m", "dc1", {"a": 1}, ORDERED))
    inside = [cdt_ctx.cdt_ctx_map_key("dc1")]
    made = b.operate(maps.map_put("m", "b", 2, ORDERED, inside))["m"]
    elsewhere = [cdt_ctx.cdt_ctx_map_key("dc2")]
    return [made, b.bins(), attempt(lambda: b.operate(maps.map_put("m", "b", 2, ORDERED, elsewhere)))]


@row("issue 6: map of maps", {"m": {"dc1": {"b": 2}}})
def a_map_created_inside(b: Bench) -> Any:
    inside = [cdt_ctx.cdt_ctx_map_key_create("dc1", aerospike.MAP_KEY_ORDERED)]
    b.operate(maps.map_put("m", "b", 2, ORDERED, inside))
    return b.bins()


@row("issue 6: map_put flags", [Failed(24), 1, Failed(23), 1, {"m": {1: 10}}])
def put_flags(b: Bench) -> Any:
    def put(key: int, value: int, flags: int) -> Any:
        policy = {**ORDERED, "map_write_flags": flags}
        return attempt(lambda: b.operate(maps.map_put("m", key, value, policy))["m"])

    put(1, 10, 0)
    create, update, no_fail = (
        aerospike.MAP_WRITE_FLAGS_CREATE_ONLY,
        aerospike.MAP_WRITE_FLAGS_UPDATE_ONLY,
        aerospike.MAP_WRITE_FLAGS_NO_FAIL,
    )
    found = [put(1, 5, create), put(1, 5, create | no_fail), put(2, 5, update), put(2, 5, update | no_fail)]
    return [*found, b.bins()]


@row("issue 6: map_put_items flags", [2, {1: 10, 2: 5}])
def items_partly(b: Bench) -> Any:
    b.operate(maps.map_put("m", 1, 10, ORDERED))
    flags = (
        aerospike.MAP_WRITE_FLAGS_CREATE_ONLY | aerospike.MAP_WRITE_FLAGS_NO_FAIL | aerospike.MAP_WRITE_FLAGS_PARTIAL
    )
    made = b.operate(maps.map_put_items("m", {1: 5, 2: 5}, {**ORDERED, "map_write_flags": flags}))["m"]
    return [made, b.bins()["m"]]


@row("the server, found by comparing: an empty map takes items that it should refuse", [2, 2, {1: 5, 2: 5}])
def items_partly_into_an_empty_map(b: Bench) -> Any:
    b.put({"m": aerospike.KeyOrderedDict({})})
    flags = (
        aerospike.MAP_WRITE_FLAGS_UPDATE_ONLY | aerospike.MAP_WRITE_FLAGS_NO_FAIL | aerospike.MAP_WRITE_FLAGS_PARTIAL
    )
    policy = {**ORDERED, "map_write_flags": flags}
    first = b.operate(maps.map_put_items("m", {1: 5, 2: 5}, policy))["m"]
    return [first, b.operate(maps.map_put_items("m", {3: 5}, policy))["m"], b.bins()["m"]]


@row(
    "issue 6: map_get_by_key_list",
    [2, [-3, 12], [100, 300], [-3, 100, 12, 300], {-3: 100, 12: 300}, True, 0, [], {}, False],
)
def by_key_list(b: Bench) -> Any:
    _filled(b)
    found = [maps.map_get_by_key_list("m", [12, 99, -3, 12], answer) for answer in (COUNT, KEYS, VALUES, PAIRS, AS_MAP)]
    none = [maps.map_get_by_key_list("m", [98, 99], answer) for answer in (COUNT, KEYS, AS_MAP, EXISTS)]
    there = maps.map_get_by_key_list("m", [12], EXISTS)
    return b.ordered(*found, there, *none)


@row("issue 6: map_get_by_value_range", [2, 3, 2, [7, 700, 40, 400], {7: 700, 40: 400}, 0])
def by_value_range(b: Bench) -> Any:
    _filled(b)
    return b.ordered(
        maps.map_get_by_value_range("m", 301, aerospike.CDTInfinite(), COUNT),
        maps.map_get_by_value_range("m", 300, 701, COUNT),
        maps.map_get_by_value_range("m", 300, 700, COUNT),
        maps.map_get_by_value_range("m", 400, aerospike.CDTInfinite(), PAIRS),
        maps.map_get_by_value_range("m", 400, aerospike.CDTInfinite(), AS_MAP),
        maps.map_get_by_value_range("m", 701, aerospike.CDTInfinite(), COUNT),
    )


@row("issue 6: map_get_by_key", [300, None, True, 0, 4])
def by_key(b: Bench) -> Any:
    _filled(b)
    return b.ordered(
        maps.map_get_by_key("m", 12, VALUES),
        maps.map_get_by_key("m", 13, VALUES),
        maps.map_get_by_key("m", 12, EXISTS),
        maps.map_get_by_key("m", 13, COUNT),
        maps.map_size("m"),
    )


@row("issue 6: map_get_by_key_range", [[-3, 7], [12, 40]])
def by_key_range(b: Bench) -> Any:
    _filled(b)
    return b.ordered(
        maps.map_get_by_key_range("m", -3, 12, KEYS),
        maps.map_get_by_key_range("m", 12, aerospike.CDTInfinite(), KEYS),
    )


@row("issue 6: all but the keys given", [[-3, 40], 2])
def inverted(b: Bench) -> Any:
    _filled(b)
    return b.ordered(
        maps.map_get_by_key_list("m", [7, 12], KEYS, inverted=True),
        maps.map_get_by_key_list("m", [7, 12], COUNT, inverted=True),
    )


@row("issue 6: removing positions", [2, 400, {-3: 100}])
def removing(b: Bench) -> Any:
    _filled(b)
    found = b.ordered(
        maps.map_remove_by_key_list("m", [7, 12, 99], COUNT),
        maps.map_remove_by_key("m", 40, VALUES),
    )
    return [*found, b.bins()["m"]]


@row("facts: an answer by bin collapses", [{"m": 4}, [[700], 4]])
def two_operations_on_one_bin(b: Bench) -> Any:
    _filled(b)
    ops = [maps.map_get_by_key_list("m", [7], VALUES), maps.map_size("m")]
    return [b.operate(*ops), b.ordered(*ops)]


@row("issue 6: reads of a bin that is missing", [[None, None], {}])
def map_reads_without_a_bin(b: Bench) -> Any:
    b.put({"a": 1})
    ops = [maps.map_size("m"), maps.map_get_by_key_list("m", [1], COUNT)]
    return [b.ordered(*ops), {} if b.operate(*ops) == {"m": None} else b.operate(*ops)]


@row("facts: wrong type", [Failed(12), Failed(12)])
def map_operations_on_an_int(b: Bench) -> Any:
    b.put({"m": 1})
    return [
        attempt(lambda: b.operate(maps.map_size("m"))),
        attempt(lambda: b.operate(maps.map_put("m", 1, 1, ORDERED))),
    ]


@row("issue 6: a plain map", [{1: 1, 3: 3}, {1: 1, 2: 2, 3: 3}])
def a_plain_map_stays_usable(b: Bench) -> Any:
    b.put({"m": {3: 3, 1: 1}})
    before = b.bins()["m"]
    b.operate(maps.map_put_items("m", {2: 2}))
    return [before, b.bins()["m"]]


@row("issue 6: no answer wanted", [[None, {7: 700}]])
def no_answer(b: Bench) -> Any:
    _filled(b)
    return [b.ordered(maps.map_remove_by_key_list("m", [-3, 40, 12], NOTHING), operations.read("m"))]


@row("facts: 26,000 positions in a map", [26_000, 13, 26_001])
def a_large_map(b: Bench) -> Any:
    for start in range(0, 26_000, 2_000):
        items = {position: 1_700_000_000_000 + position for position in range(start, start + 2_000)}
        b.operate(maps.map_put_items("m", items, ORDERED), total_timeout=10_000)
    return b.ordered(
        maps.map_size("m"),
        maps.map_get_by_key_list("m", list(range(0, 26_000, 2_000)), COUNT),
        maps.map_put("m", -1, 1, ORDERED),
    )

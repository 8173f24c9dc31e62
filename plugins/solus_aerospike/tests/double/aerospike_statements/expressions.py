"""Statements about expressions: filters, reads and writes, and what is unknown."""

from __future__ import annotations

from typing import Any

import aerospike
from aerospike_helpers import expressions as e  # type: ignore[import-untyped]  # it has no types
from aerospike_helpers.operations import map_operations as maps  # type: ignore[import-untyped]  # it has no types
from aerospike_helpers.operations import operations
from aerospike_helpers.operations.expression_operations import expression_read, expression_write  # type: ignore[import-untyped]  # it has no types

from aerospike_statements.bench import Bench, Failed, Table, attempt

table = Table()
row = table.row

COUNT, AS_MAP, PAIRS = aerospike.MAP_RETURN_COUNT, aerospike.MAP_RETURN_ORDERED_MAP, aerospike.MAP_RETURN_KEY_VALUE
ORDERED = {"map_order": aerospike.MAP_KEY_ORDERED}
ENDLESS = aerospike.CDTInfinite()
NO_FAIL = aerospike.EXP_WRITE_EVAL_NO_FAIL
BINS = {"a": 5, "s": "text", "y": b"blob", "t": True, "f": 2.5, "m": {1: 10, 2: 20}, "l": [1, 2]}
# Values are kept under other names than the expressions that read them.
HIGH, LOW = 1_700_000_000_999, 1_700_000_000_000


@row("issue 6: comparisons", [True, False, True, True, False, True, True, True, True])
def comparisons(b: Bench) -> Any:
    b.put(BINS)
    a = e.IntBin("a")
    terms = [e.Eq(a, 5), e.NE(a, 5), e.GT(a, 4), e.GE(a, 5), e.LT(a, 5), e.LE(a, 5)]
    others = [e.Eq(e.StrBin("s"), "text"), e.Eq(e.BlobBin("y"), b"blob"), e.Eq(e.BoolBin("t"), True)]
    return [b.value(term) for term in (*terms, *others)]


@row("facts: a missing bin is unknown", [Failed(26), None, Failed(26), False, False, False])
def what_is_unknown(b: Bench) -> Any:
    b.put(BINS)
    unknown = e.GT(e.IntBin("no"), 1)
    wrong_type = e.GT(e.IntBin("s"), 1)
    return [
        attempt(lambda: b.value(unknown)),
        b.value(unknown, flags=aerospike.EXP_READ_EVAL_NO_FAIL),
        attempt(lambda: b.value(wrong_type)),
        b.passes(unknown),
        b.passes(e.Not(unknown)),
        b.passes(wrong_type),
    ]


@row("facts: unknown in And and Or", [False, True, Failed(26), Failed(26)])
def unknown_in_and_or(b: Bench) -> Any:
    b.put(BINS)
    unknown, true, false = e.GT(e.IntBin("no"), 1), e.Eq(e.IntBin("a"), 5), e.Eq(e.IntBin("a"), 6)
    return [
        b.value(e.And(unknown, false)),
        b.value(e.Or(unknown, true)),
        attempt(lambda: b.value(e.And(unknown, true))),
        attempt(lambda: b.value(e.Or(unknown, false))),
    ]


@row("issue 6: Cond, BinExists, Max", [5, 0, 5, 9, Failed(26), True, False])
def conditions(b: Bench) -> Any:
    b.put(BINS)

    def or_zero(name: str) -> Any:
        return e.Cond(e.BinExists(name), e.IntBin(name), 0)

    return [
        b.value(or_zero("a")),
        b.value(or_zero("no")),
        b.value(e.Max(or_zero("a"), or_zero("no"), 3)),
        b.value(e.Max(e.IntBin("a"), 9)),
        attempt(lambda: b.value(e.Max(e.IntBin("no"), 9))),
        b.value(e.Not(e.BinExists("no"))),
        b.value(e.And(e.BinExists("a"), e.BinExists("no"))),
    ]


@row("R23: types of bins", [[1, 3, 4, 17, 2, 19, 20, 0], True, False, False, [10, 0, 0]])
def types_of_bins(b: Bench) -> Any:
    b.put(BINS)

    def count(name: str) -> Any:
        mine = e.MapGetByKeyList(None, AS_MAP, [1], e.MapBin(name))
        live = e.MapGetByValueRange(None, aerospike.MAP_RETURN_COUNT, 0, ENDLESS, mine)
        return e.Cond(e.Eq(e.BinType(name), aerospike.AS_BYTES_MAP), e.Add(live, 9), 0)

    return [
        [b.value(e.BinType(name)) for name in (*BINS, "no")],
        b.value(e.Eq(e.BinType("m"), aerospike.AS_BYTES_MAP)),
        b.value(e.Eq(e.BinType("s"), aerospike.AS_BYTES_INTEGER)),
        b.passes(e.Eq(e.BinType("no"), aerospike.AS_BYTES_MAP)),
        [b.value(count(name)) for name in ("m", "s", "no")],
    ]


@row("issue 6: Let", [12, 10])
def variables(b: Bench) -> Any:
    b.put(BINS)
    both = e.Let(e.Def("n", e.IntBin("a")), e.Add(e.Var("n"), e.Var("n"), 2))
    return [b.value(both), b.value(e.Sub(e.Add(e.IntBin("a"), 10), 5))]


@row("facts: expressions that don't fit together", [Failed(4), Failed(4), Failed(4)])
def expressions_of_wrong_types(b: Bench) -> Any:
    b.put(BINS)
    return [
        attempt(lambda: b.value(e.Eq(e.IntBin("a"), "text"))),
        attempt(lambda: b.value(e.Cond(e.BinExists("a"), 1, "text"))),
        b.passes(e.IntBin("a")),
    ]


@row("facts: bin names in expressions", [Failed(4), Failed(-1)])
def long_bin_names_in_expressions(b: Bench) -> Any:
    b.put(BINS)
    write = expression_write("b" * 16, e.Val(1).compile())
    return [attempt(lambda: b.value(e.BinExists("a" * 16))), attempt(lambda: b.operate(write))]


@row("facts: a filter is not applied to a missing record", [True, Failed(27), {"a": 1}])
def filtered_writes(b: Bench) -> Any:
    never = e.Eq(e.IntBin("a"), 99).compile()
    b.put({"a": 1}, expressions=never)
    made = b.bins() == {"a": 1}
    return [made, attempt(lambda: b.put({"a": 2}, expressions=never)), b.bins()]


@row("facts: filters", [Failed(27), Failed(27), Failed(27), Failed(27), 1])
def filtered_commands(b: Bench) -> Any:
    b.put({"a": 1})
    no = {"expressions": e.Eq(e.IntBin("a"), 99).compile()}
    yes = {"expressions": e.Eq(e.IntBin("a"), 1).compile()}
    return [
        attempt(lambda: b.client.get(b.key(), policy=no)),
        attempt(lambda: b.client.exists(b.key(), policy=no)),
        attempt(lambda: b.client.remove(b.key(), policy=no)),
        attempt(lambda: b.client.touch(b.key(), 0, policy=no)),
        b.client.select(b.key(), ["a"], policy=yes)[2]["a"],
    ]


def _raise(name: str, value: int) -> dict[str, Any]:
    """The Max-write of the facts."""
    raised = e.Cond(e.BinExists(name), e.Max(e.IntBin(name), value), value)
    made: dict[str, Any] = expression_write(name, raised.compile())
    return made


@row("R4: an expiry is only raised", [{"b1": 10}, {"b1": 10}, {"b1": 12, "b2": 12}])
def max_writes(b: Bench) -> Any:
    b.operate(_raise("b1", 10))
    first = b.bins()
    b.operate(_raise("b1", 7))
    second = b.bins()
    b.operate(_raise("b1", 12), _raise("b2", 12))
    return [first, second, b.bins()]


@row("facts: write flags", [Failed(26), {"a": 1}, Failed(17), {"a": 1}, Failed(6), {"a": 2}])
def flags_of_writes(b: Bench) -> Any:
    def write(name: str, expression: Any, flags: int) -> Any:
        found = attempt(lambda: b.operate(expression_write(name, expression.compile(), flags)))
        return found if isinstance(found, Failed) else b.bins()

    b.put({"a": 1})
    unknown = e.Add(e.IntBin("no"), 1)
    return [
        write("b", unknown, aerospike.EXP_WRITE_DEFAULT),
        write("b", unknown, NO_FAIL),
        write("b", e.Val(1), aerospike.EXP_WRITE_UPDATE_ONLY),
        write("b", e.Val(1), aerospike.EXP_WRITE_UPDATE_ONLY | aerospike.EXP_WRITE_POLICY_NO_FAIL),
        write("a", e.Val(1), aerospike.EXP_WRITE_CREATE_ONLY),
        write("a", e.Val(2), aerospike.EXP_WRITE_DEFAULT),
    ]


@row(
    "facts: a read before the writes tells the state before", [{"seen": False, "b1": None}, {"seen": True, "b1": None}]
)
def a_read_before_the_writes(b: Bench) -> Any:
    seen = expression_read("seen", e.BinExists("b1").compile())
    b.put({"a": 1})
    return [b.operate(seen, _raise("b1", 1)), b.operate(seen, _raise("b1", 1))]


@row("facts: answers of writes", [[False, None, 10], [True, None, 10]])
def answers_in_order(b: Bench) -> Any:
    seen = expression_read("seen", e.BinExists("b1").compile())
    ops = [seen, _raise("b1", 10), operations.read("b1")]
    return [b.ordered(*ops), b.ordered(*ops)]


@row("facts: TTL() tells how long is left", [True, -1, True])
def ttl_of_a_record(b: Bench) -> Any:
    b.put({"a": 1}, ttl=1000)
    left = b.value(e.TTL())
    # An operate that only reads leaves the TTL as it is; one that writes has to say so.
    with_write = b.ordered(
        expression_read("ttl", e.TTL().compile()), operations.write("a", 2), ttl=aerospike.TTL_DONT_UPDATE
    )
    b.put({"a": 1}, "never", ttl=aerospike.TTL_NEVER_EXPIRE)
    return [998 <= left <= 1000, b.value(e.TTL(), "never"), 998 <= with_write[0] <= 1000]


@row("facts: TTL() sees the new TTL after a write's metadata", [True, True])
def ttl_inside_a_write(b: Bench) -> Any:
    """Which TTL an expression sees in a command that sets another one."""
    b.put({"a": 1}, ttl=1000)
    seen = b.ordered(expression_read("ttl", e.TTL().compile()), operations.write("a", 2), ttl=500)[0]
    return [seen <= 500, seen >= 498]


@row("issue 6: touching back where the TTL is shorter", [{}, Failed(27), True])
def a_touch_guarded_by_ttl(b: Bench) -> Any:
    b.put({"a": 1}, ttl=500)
    guard = e.LT(e.TTL(), 900).compile()
    found = [attempt(lambda: b.operate(operations.touch(), ttl=1000, expressions=guard)) for _ in range(2)]
    return [*found, 998 <= b.meta()["ttl"] <= 1000]


@row("issue 6: metadata of a record", [True, False, True, "text", True])
def metadata(b: Bench) -> Any:
    b.put({"a": 1}, "text", key=aerospike.POLICY_KEY_SEND)
    b.put({"a": 1}, "not sent")
    return [
        b.value(e.KeyExists(), "text"),
        b.value(e.KeyExists(), "not sent"),
        b.value(e.Eq(e.SetName(), b.set), "text"),
        b.value(e.KeyStr(), "text"),
        b.value(e.LT(e.SinceUpdateTime(), 5_000), "text"),
    ]


@row("issue 6: size of a record", [True, True])
def record_size(b: Bench) -> Any:
    b.put({"a": b"x" * 100})
    small = b.value(e.RecordSize())
    b.put({"a": b"x" * 1_000})
    return [144 <= small <= 192, 1_040 <= b.value(e.RecordSize()) <= 1_088]


def _positions(b: Bench, **policy: Any) -> None:
    b.operate(maps.map_put_items("m", {1: LOW, 2: HIGH, 3: LOW}, ORDERED), **policy)


def _all_live(positions: list[int], now: int) -> Any:
    """The facts' one expression for "all of these positions are live"."""
    mine = e.MapGetByKeyList(None, AS_MAP, positions, e.MapBin("m"))
    live = e.MapGetByValueRange(None, COUNT, now, ENDLESS, mine)
    return e.And(e.BinExists("m"), e.Eq(live, len(positions)))


@row("R1, R3: all positions live on a map", [True, False, False, False, True])
def all_positions_live(b: Bench) -> Any:
    b.put({"a": 1}, "empty")
    _positions(b)
    return [
        b.value(_all_live([1, 2, 3], LOW)),
        b.value(_all_live([1, 2, 3], LOW + 1)),
        b.value(_all_live([1, 2, 4], LOW)),
        b.value(_all_live([1], LOW), "empty"),
        b.value(_all_live([2], HIGH)),
    ]


@row("R4: the filter of the facts", [Failed(27), {1: LOW, 2: HIGH, 3: LOW}, {1: LOW + 5, 2: HIGH, 3: LOW}])
def no_later_expiry_filter(b: Bench) -> Any:
    def add(positions: list[int], expiry: int) -> Any:
        mine = e.MapGetByKeyList(None, AS_MAP, positions, e.MapBin("m"))
        later = e.MapGetByValueRange(None, COUNT, expiry + 1, ENDLESS, mine)
        guard = e.Or(e.Not(e.BinExists("m")), e.Eq(later, 0))
        items = dict.fromkeys(positions, expiry)
        return attempt(lambda: b.operate(maps.map_put_items("m", items, ORDERED), expressions=guard.compile()))

    add([1, 3], LOW)
    add([2], HIGH)
    refused = add([1, 2], LOW + 5)
    before = b.bins()["m"]
    add([1], LOW + 5)
    return [refused, before, b.bins()["m"]]


def _merge(positions: list[int], expiry: int) -> dict[str, Any]:
    """The merged map of the design: ours, but for positions whose stored expiry is later."""
    own = e.MapBin("m")
    mine = e.MapGetByKeyList(None, AS_MAP, positions, own)
    later = e.MapGetByValueRange(None, AS_MAP, expiry + 1, ENDLESS, mine)
    items: dict[int, int] = dict.fromkeys(positions, expiry)
    merged = e.MapPutItems(None, None, later, e.MapPutItems(None, None, items, own))
    raised = e.Cond(e.BinExists("m"), merged, aerospike.KeyOrderedDict(items))
    made: dict[str, Any] = expression_write("m", raised.compile())
    return made


@row("R4: one expression that merges", [{1: LOW, 2: LOW}, {1: HIGH, 2: LOW}, {1: HIGH, 2: LOW + 1, 3: LOW + 1}])
def merged_maps(b: Bench) -> Any:
    found = []
    for positions, expiry in (([1, 2], LOW), ([1], HIGH), ([1, 2, 3], LOW + 1)):
        b.operate(_merge(positions, expiry))
        found.append(dict(b.bins()["m"]))
    return found


@row("R4: a merged map is ordered", [[1, 2, 9], [2, HIGH, 9, HIGH]])
def merged_maps_are_ordered(b: Bench) -> Any:
    b.operate(_merge([9, 1], LOW))
    b.operate(_merge([2, 9], HIGH))
    pairs = b.ordered(maps.map_get_by_value_range("m", HIGH, ENDLESS, PAIRS))[0]
    return [list(b.bins()["m"]), pairs]


@row("R19: the union over farms", [3, 2, 0])
def union_of_farms(b: Bench) -> Any:
    def live(name: str, now: int) -> Any:
        mine = e.MapGetByKeyList(None, AS_MAP, [1, 2, 3, 4], e.MapBin(name))
        return e.Cond(e.BinExists(name), e.MapGetByValueRange(None, AS_MAP, now, ENDLESS, mine), {})

    def count(now: int) -> int:
        both = e.MapPutItems(None, None, live("dc2", now), live("dc1", now))
        found: int = b.value(e.MapSize(None, both))
        return found

    b.put({"a": 1})
    b.operate(maps.map_put_items("dc1", {1: LOW, 2: HIGH}, ORDERED))
    b.operate(maps.map_put_items("dc2", {2: LOW, 3: HIGH, 9: HIGH}, ORDERED))
    return [count(LOW), count(LOW + 1), count(HIGH + 1)]


@row("issue 6: map expressions", [10, Failed(26), 2, True, {1: 10}, {1: 10, 2: 20, 3: 30}, [1, 2]])
def map_expressions(b: Bench) -> Any:
    b.put(BINS)
    by_key, integer, value = e.MapGetByKey, e.ResultType.INTEGER, aerospike.MAP_RETURN_VALUE
    return [
        b.value(by_key(None, value, integer, 1, "m")),
        attempt(lambda: b.value(by_key(None, value, integer, 7, "m"))),
        b.value(e.MapSize(None, "m")),
        b.value(by_key(None, aerospike.MAP_RETURN_EXISTS, e.ResultType.BOOLEAN, 1, "m")),
        dict(b.value(e.MapGetByKeyList(None, AS_MAP, [1, 7], "m"))),
        dict(b.value(e.MapPut(None, None, 3, 30, "m"))),
        b.value(e.ListBin("l")),
    ]


@row("issue 6: map expressions on what is no map", [Failed(26), Failed(26)])
def map_expressions_that_fail(b: Bench) -> Any:
    b.put(BINS)
    return [attempt(lambda: b.value(e.MapSize(None, "a"))), attempt(lambda: b.value(e.MapSize(None, "no")))]


@row("facts: only maps that are ordered compare", [True, True, Failed(26), Failed(26), False])
def comparing_maps(b: Bench) -> Any:
    ordered = aerospike.KeyOrderedDict
    b.put({"m": ordered({1: 10}), "plain": {1: 10}, "deep": ordered({1: {2: 3}}), "empty": {}})
    return [
        b.value(e.Eq(e.MapBin("m"), e.Val(ordered({1: 10})))),
        b.value(e.Eq(e.MapBin("empty"), e.Val({}))),
        attempt(lambda: b.value(e.Eq(e.MapBin("plain"), e.MapBin("m")))),
        attempt(lambda: b.value(e.Eq(e.MapBin("deep"), e.MapBin("deep")))),
        b.value(e.Eq(e.MapBin("m"), e.Val({}))),
    ]


@row("issue 6: literals", ["text", b"blob", True, {1: {"k": [1, 2]}}, [1, "a"], 1 << 62, -5])
def literals(b: Bench) -> Any:
    b.put(BINS)
    values: list[Any] = ["text", b"blob", True, {1: {"k": [1, 2]}}, [1, "a"], 1 << 62, -5]
    return [b.value(e.Cond(e.BinExists("a"), e.Val(value), e.Val(value))) for value in values]


@row("facts: nothing of expressions stays", [Failed(2), None])
def an_expression_read_makes_no_record(b: Bench) -> Any:
    found = attempt(lambda: b.value(e.BinExists("a")))
    return [found, b.client.exists(b.key())[1]]

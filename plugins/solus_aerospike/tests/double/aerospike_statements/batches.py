"""Statements about batches, queries and info commands."""

from __future__ import annotations

from typing import Any

import aerospike
from aerospike_helpers import expressions as e  # type: ignore[import-untyped]  # it has no types
from aerospike_helpers.batch import records as batch  # type: ignore[import-untyped]  # it has no types
from aerospike_helpers.operations import map_operations as maps  # type: ignore[import-untyped]  # it has no types
from aerospike_helpers.operations import operations
from aerospike_helpers.operations.expression_operations import expression_read, expression_write  # type: ignore[import-untyped]  # it has no types

from aerospike_statements.bench import Bench, Failed, Table, attempt, outcomes

table = Table()
row = table.row

SEND = aerospike.POLICY_KEY_SEND
UNSEEN = e.Not(e.BinExists("a")).compile()


@row("issue 6: batch_read", (0, [(0, {"a": 1}), (2, None), (0, {"a": 2})]))
def reading_a_batch(b: Bench) -> Any:
    b.put({"a": 1}, "one")
    b.put({"a": 2, "b": 3}, "two")
    found = b.client.batch_read([b.key("one"), b.key("no"), b.key("two")], ["a"])
    return found.result, outcomes(found)


@row("issue 6: batch_read of whole records", (0, [(0, {"a": 1, "m": {1: 2}}), (2, None)]))
def reading_whole_records(b: Bench) -> Any:
    b.put({"a": 1, "m": {1: 2}}, "one")
    found = b.client.batch_read([b.key("one"), b.key("no")])
    return found.result, outcomes(found)


@row("issue 6: batch_read of existence", (0, [(0, {}), (2, None)]))
def reading_existence(b: Bench) -> Any:
    b.put({"a": 1}, "one")
    found = b.client.batch_read([b.key("one"), b.key("no")], [])
    return found.result, outcomes(found)


@row("issue 6: batch_operate that reads", (0, [(0, {"x": 10}), (2, None)]))
def operating_on_a_batch(b: Bench) -> Any:
    b.put({"m": {1: 10}}, "one")
    value = e.MapGetByKey(None, aerospike.MAP_RETURN_VALUE, e.ResultType.INTEGER, 1, "m")
    found = b.client.batch_operate([b.key("one"), b.key("no")], [expression_read("x", value.compile())])
    return found.result, outcomes(found)


@row("issue 6: batch_operate that writes", [(0, [(0, {"m": 1}), (0, {"m": 1})]), {"m": {1: 5}}, True])
def writing_one_thing_to_a_batch(b: Bench) -> Any:
    ops = [maps.map_put_items("m", {1: 5}, {"map_order": aerospike.MAP_KEY_ORDERED})]
    found = b.client.batch_operate([b.key("one"), b.key("two")], ops, policy_batch_write={"ttl": 700})
    return [(found.result, outcomes(found)), b.bins("two"), 698 <= b.meta("two")["ttl"] <= 700]


@row("facts: a row's own policy", [(-16, [(0, {"a": None}), (5, None), (27, None), (0, {"a": None})]), [True, -1]])
def policies_of_rows(b: Bench) -> Any:
    b.put({"a": 1}, "there")
    write = [operations.write("a", 2)]
    found = b.batch(
        batch.Write(b.key("new"), write, policy={"ttl": 300, "key": SEND}),
        batch.Write(b.key("there"), write, policy={"exists": aerospike.POLICY_EXISTS_CREATE}),
        batch.Write(b.key("there"), write, policy={"expressions": UNSEEN}),
        batch.Write(b.key("never"), write, policy={"ttl": aerospike.TTL_NEVER_EXPIRE}),
    )
    ttl = b.meta("never")["ttl"]
    return [found, [298 <= b.meta("new")["ttl"] <= 300, -1 if ttl == 0xFFFFFFFF else ttl]]


@row("facts: generations of rows", (-16, [(3, None), (0, {"a": None})]))
def generations_of_rows(b: Bench) -> Any:
    b.put({"a": 1})
    write = [operations.write("a", 2)]
    equal = {"gen": aerospike.POLICY_GEN_EQ}
    return b.batch(
        batch.Write(b.key(), write, meta={"gen": 9}, policy=equal),
        batch.Write(b.key(), write, meta={"gen": 1}, policy=equal),
    )


@row("facts: codes 2 and 27 are no failure of the batch", (0, [(27, None), (2, None)]))
def filtered_and_missing_rows(b: Bench) -> Any:
    b.put({"a": 1})
    update = {"exists": aerospike.POLICY_EXISTS_UPDATE}
    return b.batch(
        batch.Write(b.key(), [operations.write("a", 2)], policy={"expressions": UNSEEN}),
        batch.Write(b.key("no"), [operations.write("a", 2)], policy=update),
    )


@row("R6: one key several times in a batch", [(0, [(0, {"seen": False, "a": None}), (0, {"seen": True, "a": None})])])
def one_key_twice(b: Bench) -> Any:
    ops = [expression_read("seen", e.BinExists("a").compile()), expression_write("a", e.Val(1).compile())]
    return [b.batch(batch.Write(b.key(), ops), batch.Write(b.key(), ops))]


@row("R6: add-if-absent twice in a batch", (0, [(0, {"a": None}), (27, None)]))
def one_key_twice_filtered(b: Bench) -> Any:
    write = [expression_write("a", e.Val(1).compile())]
    return b.batch(*(batch.Write(b.key(), write, policy={"expressions": UNSEEN}) for _ in range(2)))


@row("facts: rows that fail", [(-16, [(4, None), (12, None), (0, {"b": None})]), {"a": "text", "b": 1}])
def rows_that_fail(b: Bench) -> Any:
    b.put({"a": "text"})
    found = b.batch(
        batch.Write(b.key(), [expression_write("x", e.Eq(e.Val(1), e.Val("1")).compile())]),
        batch.Write(b.key(), [operations.increment("a", 1)]),
        batch.Write(b.key(), [operations.write("b", 1)]),
    )
    return [found, b.bins()]


@row("facts: an operation that the client refuses fails the whole batch", [Failed(21), None])
def a_row_that_the_client_refuses(b: Bench) -> Any:
    rows = [batch.Write(b.key(), [operations.write(name, 1)]) for name in ("a", "x" * 16)]
    return [attempt(lambda: b.batch(*rows)), b.client.exists(b.key())[1]]


@row("facts: a row of a namespace that is not there", (-16, [(20, None)]))
def a_batch_elsewhere(b: Bench) -> Any:
    found = b.client.batch_read([("nowhere", "s", "k")])
    return found.result, outcomes(found)


@row("issue 6: mixed rows", (0, [(0, {"a": 1}), (0, {"b": None}), (0, None), (2, None)]))
def reads_writes_and_removes(b: Bench) -> Any:
    b.put({"a": 1}, "one")
    b.put({"a": 1}, "two")
    result, rows = b.batch(
        batch.Read(b.key("one"), [operations.read("a")]),
        batch.Write(b.key("one"), [operations.write("b", 1)]),
        batch.Remove(b.key("two")),
        batch.Remove(b.key("no")),
    )
    return result, [*rows[:2], (rows[2][0], rows[2][1] or None), *rows[3:]]


@row("issue 6: batches of thousands", [(0, 5_000), 5_000, {"a": 4_999}])
def thousands_of_rows(b: Bench) -> Any:
    rows = [batch.Write(b.key(number), [operations.write("a", number)]) for number in range(5_000)]
    result, found = b.batch(*rows, total_timeout=20_000)
    keys = [b.key(number) for number in range(5_000)]
    read = b.client.batch_read(keys, ["a"], policy={"total_timeout": 20_000})
    right = sum(row.record[2]["a"] == number for number, row in enumerate(read.batch_records))
    return [(result, sum(code == 0 for code, _ in found)), right, b.bins(4_999)]


@row("issue 6: active list by query", [["a", "c"], [{"on": True}, {"on": True}]])
def a_query_with_a_filter(b: Bench) -> Any:
    for name, on in (("a", True), ("b", False), ("c", True)):
        b.put({"on": on, "x": 1}, name, key=SEND)
    query = b.client.query(b.namespace, b.set)
    query.select("on")
    on = e.Eq(e.BoolBin("on"), True).compile()
    found = query.results({"expressions": on, "total_timeout": 5_000})
    return [sorted(key[2] for key, _, _ in found), [bins for _, _, bins in found]]


@row("issue 6: query of a set", [[], 50, True])
def a_query_of_a_set(b: Bench) -> Any:
    empty = b.client.query(b.namespace, b.set).results({"total_timeout": 5_000})
    for number in range(50):
        b.put({"a": number, "b": "x"}, number, key=SEND, ttl=400)
    found = b.client.query(b.namespace, b.set).results({"total_timeout": 5_000})
    right = all(bins == {"a": key[2], "b": "x"} and 390 <= meta["ttl"] <= 400 for key, meta, bins in found)
    return [empty, len(found), right]


@row("facts: records without the bins that are selected stay out of a query", [["one"]])
def a_query_of_bins(b: Bench) -> Any:
    b.put({"a": 1}, "one", key=SEND)
    b.put({"b": 1}, "two", key=SEND)
    query = b.client.query(b.namespace, b.set)
    query.select("a")
    return [[key[2] for key, _, _ in query.results({"total_timeout": 5_000})]]


@row("facts: a query where there is no such namespace", Failed(20))
def a_query_elsewhere(b: Bench) -> Any:
    return attempt(lambda: b.client.query("nowhere", b.set).results({"total_timeout": 5_000}))


def _info(b: Bench, command: str) -> str:
    (answer,) = b.client.info_all(command).values()
    text: str = answer[1]
    return text.strip()


def _random(b: Bench, command: str) -> str:
    text: str = b.client.info_random_node(command)
    return text.partition("\t")[2].strip()


@row("facts: set index", [True, ["one"], True, False])
def a_set_index(b: Bench) -> Any:
    b.put({"a": 1}, "one", key=SEND)
    name = "i" + b.set
    if hasattr(b.client, "index_set_create"):
        b.client.index_set_create(b.namespace, b.set, name)
    else:  # clients before 19.2
        _info(b, f"sindex-create:namespace={b.namespace};set={b.set};indexname={name};indextype=SET")
    made = f"indexname={name}:" in _info(b, f"sindex-list:namespace={b.namespace}")
    found = [key[2] for key, _, _ in b.client.query(b.namespace, b.set).results({"total_timeout": 5_000})]
    removed = _info(b, f"sindex-delete:namespace={b.namespace};indexname={name}").lower() == "ok"
    return [made, found, removed, f"indexname={name}:" in _info(b, f"sindex-list:namespace={b.namespace}")]


@row("issue 6: set indexes made twice", ["ok", "ok", Failed(200), "ok", "ok"])
def set_indexes_made_twice(b: Bench) -> Any:
    def create(of: str) -> Any:
        command = f"sindex-create:namespace={b.namespace};set={of};indexname=i{b.set};indextype=SET"
        return attempt(lambda: _random(b, command))

    delete = f"sindex-delete:namespace={b.namespace};indexname=i{b.set}"
    return [create(b.set), create(b.set), create("other"), _random(b, delete), _random(b, delete)]


@row("issue 6: namespaces and whether TTLs are possible there", [True, True, True, "1048576", "false"])
def info_of_a_namespace(b: Bench) -> Any:
    found = dict(pair.split("=", 1) for pair in _info(b, f"namespace/{b.namespace}").split(";"))
    names = _info(b, "namespaces").split(";")
    return [
        b.namespace in names,
        int(found["nsup-period"]) > 0,
        found["allow-ttl-without-nsup"] in ("true", "false"),
        found["max-record-size"],
        found["stop_writes"],
    ]


@row("issue 6: a namespace that is not there", "type=unknown")
def info_of_another_namespace(b: Bench) -> Any:
    return _info(b, "namespace/nowhere")


@row("issue 6: info that fails", [Failed(4), Failed(20), "ns_type=unknown", ""])
def info_that_fails(b: Bench) -> Any:
    return [
        attempt(lambda: _random(b, "nonsense")),
        attempt(lambda: _random(b, "sindex-list:namespace=nowhere")),
        _random(b, "sets/nowhere"),
        _random(b, f"sets/{b.namespace}/{b.set}"),
    ]


@row("issue 6: build", True)
def info_of_the_build(b: Bench) -> Any:
    return _info(b, "build").split(".")[0].isdecimal()


@row("issue 6: sets", "2")
def info_of_a_set(b: Bench) -> Any:
    b.put({"a": 1}, "one")
    b.put({"a": 1}, "two")
    found = _info(b, f"sets/{b.namespace}/{b.set}").rstrip(";")
    return dict(pair.split("=", 1) for pair in found.split(":"))["objects"]

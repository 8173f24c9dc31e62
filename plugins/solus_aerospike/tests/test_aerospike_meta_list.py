"""The list of a client's de-dupers: it is there whatever is among them, and nothing leaves it by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import aerospike
import attrs
import pytest

from solus_aerospike import AerospikeMetaStore
from solus_core.errors import StoreError
from solus_core.model import DeDuper, DeDuperConfig

if TYPE_CHECKING:
    from aerospike_double import Double

NOW = 1_700_000_000_000
OFFERS = DeDuper(name="offers", client_id="any", config=DeDuperConfig(), created_at=NOW, updated_at=NOW)
OpenMeta = Callable[..., AerospikeMetaStore]


JAVA: dict[str, object] = {
    "name": "bad",
    "hashFns": 9,
    "shards": 2_000_000,
    "bps": 3_000,
    "active": True,
    "updated": NOW,
}
UNREADABLE: list[tuple[bool, dict[str, object]]] = [
    (True, {"name": "bad", "active": True}),
    (True, {**JAVA, "hashFns": 99}),
    (False, {field: value for field, value in JAVA.items() if field != "name"}),
]


@pytest.mark.parametrize(("named", "fields"), UNREADABLE, ids=["lacks fields", "not allowed", "no name"])
def test_one_that_can_not_be_read(
    open_double: OpenMeta, client_id: str, caplog: pytest.LogCaptureFixture, named: bool, fields: dict[str, object]
) -> None:
    """R16, R22: it is left out of the list, which says so once; to ask for it by name is an error."""
    meta = open_double()
    meta.create(OFFERS)
    key = ("test", f"{client_id}_solus_DEDUPER", f"{client_id}|bad")
    policy = {"key": aerospike.POLICY_KEY_SEND if named else aerospike.POLICY_KEY_DIGEST}
    meta._context.client.put(key, {f"dc1##{field}": value for field, value in fields.items()}, policy=policy)
    assert [deduper.name for deduper in meta.active()] == ["offers"]
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    shown = key[2] if named else f"digest {bytes(aerospike.calc_digest(*key)).hex()}"
    assert f"record {shown} in set {key[1]}: " in record.message
    if named:
        with pytest.raises(StoreError, match="recorded of de-duper 'bad' can't be read"):
            meta.get("bad")


def test_one_that_does_not_say_its_name(open_double: OpenMeta, client_id: str) -> None:
    """Then it is in the key."""
    meta = open_double()
    key = ("test", f"{client_id}_solus_DEDUPER", f"{client_id}|bad")
    fields = {f"dc1##{field}": value for field, value in JAVA.items() if field != "name"}
    meta._context.client.put(key, fields, policy={"key": aerospike.POLICY_KEY_SEND})
    assert [deduper.name for deduper in meta.active()] == ["bad"]


def test_no_record_expires(double: Double, open_double: OpenMeta, monkeypatch: pytest.MonkeyPatch) -> None:
    """R13: not even where the namespace gives records a TTL by default."""
    monkeypatch.setattr(double.namespaces["test"], "default_ttl", 100)
    meta = open_double()
    meta.create(OFFERS)
    meta.create(attrs.evolve(OFFERS, name="changed"))
    meta.set_active("changed", active=False, now=NOW)
    meta.set_active("changed", active=True, now=NOW)
    double.clock.advance(200)
    assert sorted(deduper.name for deduper in meta.active()) == ["changed", "offers"]


@pytest.mark.parametrize("refused", [False, True])
def test_an_index_of_the_set(double: Double, open_double: OpenMeta, refused: bool) -> None:
    """R16: asked for once, so that a list does not look at all data; if that fails, the list is the same."""
    meta = open_double()
    meta.create(OFFERS)
    if refused:
        double.hooks.lose("info", applied=False, times=None)
    assert [deduper.name for deduper in meta.active()] == ["offers"]
    indexes = double.namespaces["test"].set_indexes
    assert indexes == ({} if refused else dict.fromkeys([meta._set], meta._set))
    indexes.clear()
    assert [deduper.name for deduper in meta.active()] == ["offers"]
    assert not indexes


def test_a_query_that_takes_long(double: Double, open_double: OpenMeta) -> None:
    """R16: a server that looks at all records of a namespace is silent for longer than another call may be."""
    from aerospike_double import Rule  # noqa: PLC0415  # its folder is on the path only now

    meta = open_double(attempts=1)
    meta.create(OFFERS)
    double.hooks.add(Rule(frozenset({"query"}), delay=2 * meta._context.config.timeout))
    assert [deduper.name for deduper in meta.active()] == ["offers"]


def test_a_query_that_never_ends(double: Double, open_double: OpenMeta, monkeypatch: pytest.MonkeyPatch) -> None:
    """R23: a query has a timeout, which the driver does not set by itself."""
    monkeypatch.setattr("solus_aerospike.meta_store._QUERY_TIMEOUT", 300)
    meta = open_double(attempts=1)
    double.hooks.lose("query", applied=False, silent=True, times=None)
    with pytest.raises(StoreError, match="listing the de-dupers"):
        meta.active()

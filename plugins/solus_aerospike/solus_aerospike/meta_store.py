"""De-dupers in Aerospike: the view that one engine has of its client's meta set."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, final

from attrs import evolve

from solus_aerospike.config import BINS, MAP
from solus_aerospike.context import AerospikeContext, writing
from solus_aerospike.farms import clock_from, join
from solus_aerospike.layout import meta_key, meta_set
from solus_aerospike.namespaces import check_namespace
from solus_aerospike.records import Fields, MetaRecord, bins_of, decode, encode, fetch, parse
from solus_aerospike.room import bad_farm
from solus_core.errors import ConfigMismatchError, DeDuperNotFoundError, ErrorCode, StoreError
from solus_core.model import DeDuper, Level

_log = logging.getLogger(__name__)

_ROUNDS: Final = 100
"""Of reading a record and writing it unless somebody else did in between: of those who meet one wins each time."""

_QUERY_TIMEOUT: Final = 60_000
"""Milliseconds. Without an index of the set the server looks at every record of the namespace, a million a second."""


@final
class AerospikeMetaStore:
    """A ``MetaStore`` (see there) for one client id. Farms share it; whoever registers a name joins its farms."""

    __slots__ = ("_client_id", "_closed", "_context", "_farm", "_indexed", "_most_bytes", "_set")

    def __init__(self, context: AerospikeContext, client_id: str) -> None:
        self._context = context
        self._client_id = client_id
        self._farm = context.config.farm
        self._set = meta_set(client_id)
        self._closed = False
        self._indexed = False
        self._most_bytes = check_namespace(context)

    def create(self, deduper: DeDuper) -> DeDuper:
        clock = clock_from(deduper.created_at)
        for _ in range(_ROUNDS):
            record = self._fetch(deduper.name)
            if record is None:
                self._join(deduper, clock(), set())
                self._write(deduper.name, MetaRecord({}, deduper.layout == BINS, None), {self._farm: encode(deduper)})
                continue
            stored = decode(self._client_id, deduper.name, record)
            # Who names a layout relies on it: beside Java's writes, say.
            if self._context.config.layout == deduper.layout != stored.layout:
                raise ConfigMismatchError(deduper.name, {"layout": (stored.layout, deduper.layout)})
            # Whoever asks for another config is refused by the caller, and has no part in this.
            if stored.config != deduper.config:
                return stored
            self._join(stored, clock(), set(record.farms))
            if self._farm in record.farms or self._write(deduper.name, record, {self._farm: encode(stored)}):
                return stored
        raise self._too_busy(deduper.name)

    def _join(self, deduper: DeDuper, now: int, registered: set[str]) -> None:
        if deduper.layout in (MAP, BINS) and deduper.config.level is Level.XDC:
            join(self._context, self._client_id, deduper, now, self._most_bytes, registered)

    def get(self, name: str) -> DeDuper | None:
        record = self._fetch(name)
        return None if record is None else decode(self._client_id, name, record)

    def set_active(self, name: str, active: bool, now: int) -> None:
        for _ in range(_ROUNDS):
            record = self._fetch(name)
            if record is None:
                raise DeDuperNotFoundError(name, "is not registered")
            stored = decode(self._client_id, name, record)
            # Inactive in one farm is inactive everywhere.
            changed: dict[str, Fields] = {
                farm: {**fields, "active": True}
                for farm, fields in record.farms.items()
                if active and not fields.get("active", True)
            }
            changed[self._farm] = encode(evolve(stored, active=active, updated_at=now))
            if self._write(name, record, changed):
                return
        raise self._too_busy(name)

    def active(self) -> Iterable[DeDuper]:
        self._check()
        self._ask_for_index()
        context = self._context
        policy = context.policy(total_timeout=_QUERY_TIMEOUT, socket_timeout=_QUERY_TIMEOUT)
        found = context.caller.read(
            f"listing the de-dupers of client {self._client_id!r}",
            lambda: context.client.query(context.config.namespace, self._set).results(policy),
        )
        # Whoever wrote a record without its key has recorded the name in a bin.
        begin = len(meta_key(self._client_id, ""))
        dedupers = []
        for key, meta, bins in found:
            try:
                deduper = decode(self._client_id, (key[2] or "")[begin:], parse(bins, meta["gen"]))
            except StoreError as error:
                # One is no reason to do without all others; to ask for it by name is an error.
                record = key[2] or f"digest {bytes(key[3]).hex()}"
                _log.warning("Left out of the list of de-dupers: record %s in set %s: %s", record, self._set, error)
                continue
            if deduper.active:
                dedupers.append(deduper)
        return dedupers

    def close(self) -> None:
        self._closed = True

    def _write(self, name: str, record: MetaRecord, changed: Mapping[str, Fields]) -> bool:
        """Write what these farms record, if ``record`` still is what is stored; answers whether it was written."""
        for problem in bad_farm(BINS, 0, self._farm) if record.in_bins else ():
            raise StoreError(ErrorCode.INVALID_CONFIG, f"de-duper {name!r} is recorded as Java does it: {problem}")
        import aerospike  # noqa: PLC0415  # no driver before a store is opened
        from aerospike.exception import RecordExistsError, RecordGenerationError  # noqa: PLC0415  # as above

        policy = self._context.policy(**writing(aerospike.TTL_NEVER_EXPIRE))
        if record.generation is None:
            policy["exists"] = aerospike.POLICY_EXISTS_CREATE
        else:
            policy["gen"] = aerospike.POLICY_GEN_EQ
        key = (self._context.config.namespace, self._set, meta_key(self._client_id, name))
        bins, meta = bins_of(changed, in_bins=record.in_bins), {"gen": record.generation or 0}
        try:
            # Where the answer was lost, what is stored is read next, and written again if need be.
            self._context.caller.write(
                f"recording de-duper {name!r}",
                lambda: self._context.client.put(key, bins, meta, policy),
            )
        except (RecordExistsError, RecordGenerationError):
            return False
        return True

    def _ask_for_index(self) -> None:
        """Let the server keep an index of the set, of as many entries as there are de-dupers; once is enough.

        The list is right without, if slow: an older server doesn't know such an index, a role may not allow it.
        """
        if self._indexed:
            return
        from aerospike.exception import AerospikeError  # noqa: PLC0415  # no driver before a store is opened

        context = self._context
        command = f"sindex-create:namespace={context.config.namespace};set={self._set}"
        with suppress(AerospikeError):
            context.client.info_random_node(f"{command};indexname={self._set};indextype=SET", context.info_policy)
        self._indexed = True

    def _fetch(self, name: str) -> MetaRecord | None:
        self._check()
        return fetch(self._context, self._client_id, name)

    def _too_busy(self, name: str) -> StoreError:
        return StoreError(
            ErrorCode.AEROSPIKE_ERROR,
            f"de-duper {name!r} was changed by others {_ROUNDS} times while it was being changed here",
        )

    def _check(self) -> None:
        if self._closed or self._context.closed:
            raise StoreError(ErrorCode.AEROSPIKE_ERROR, "this store is closed")

"""De-dupers in an SQLite file, each as one JSON text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, final

import attrs

from solus_core.errors import DeDuperNotFoundError, ErrorCode, StoreError
from solus_core.model import DeDuper, DeDuperConfig, Level
from solus_sqlite.context import View

_INSERT: Final = "INSERT INTO dedupers VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_UPDATE: Final = "UPDATE dedupers SET record = ? WHERE client_id = ? AND name = ?"
_SELECT: Final = "SELECT record FROM dedupers WHERE client_id = ? AND name = ?"
_SELECT_ALL: Final = "SELECT record FROM dedupers WHERE client_id = ?"


@final
class SqliteMetaStore(View):
    """A ``MetaStore`` (see there) for one client id."""

    __slots__ = ()

    def create(self, deduper: DeDuper) -> DeDuper:
        key = (self.client_id, deduper.name)
        with self.open_context().transaction(write=True) as connection:
            connection.execute(_INSERT, (*key, _to_text(deduper)))
            return _from_text(*connection.execute(_SELECT, key).fetchone())

    def get(self, name: str) -> DeDuper | None:
        with self.open_context().transaction() as connection:
            found = connection.execute(_SELECT, (self.client_id, name)).fetchone()
        return None if found is None else _from_text(*found)

    def set_active(self, name: str, active: bool, now: int) -> None:
        key = (self.client_id, name)
        with self.open_context().transaction(write=True) as connection:
            found = connection.execute(_SELECT, key).fetchone()
            if found is None:
                raise DeDuperNotFoundError(name, "is not registered")
            changed = attrs.evolve(_from_text(*found), active=active, updated_at=now)
            connection.execute(_UPDATE, (_to_text(changed), *key))

    def active(self) -> Iterable[DeDuper]:
        with self.open_context().transaction() as connection:
            found = connection.execute(_SELECT_ALL, (self.client_id,)).fetchall()
        return [deduper for row in found if (deduper := _from_text(*row)).active]


def _to_text(deduper: DeDuper) -> str:
    return json.dumps(attrs.asdict(deduper))


def _from_text(record: str) -> DeDuper:
    try:
        fields = json.loads(record)
        config = fields["config"]
        config["level"] = Level(config["level"])
        return DeDuper(**{**fields, "config": DeDuperConfig(**config)})
    except (ValueError, LookupError, TypeError) as error:
        raise StoreError(ErrorCode.INTERNAL_ERROR, f"can't read the de-duper record {record!r}") from error

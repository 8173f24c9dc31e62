"""The double does what a real server does (issue 6: "a self-check runs the same table of statements").

Each row is a small program with the client and what it must give. The double runs all of them always; with
SOLUS_TEST_AEROSPIKE_HOSTS a real server runs them too, so both give the same. The rows say what they serve:
R1, R3, R4, R6, R10, R13, R19, and the behaviour, limits and traps that issue 6 builds on.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import aerospike
import pytest
from aerospike_statements import STATEMENTS, Bench, Statement, attempt

if TYPE_CHECKING:
    from aerospike_double import Double

SERVERS = ["double", "real"] if os.environ.get("SOLUS_TEST_AEROSPIKE_HOSTS") else ["double"]


@pytest.fixture(scope="module")
def double_client(aerospike_double: Double) -> Iterator[Any]:
    client = aerospike.client({"hosts": aerospike_double.hosts})
    yield client
    client.close()


def _named(statement: Statement) -> str:
    return statement.name


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("statement", STATEMENTS, ids=_named)
def test_the_server_does_as_stated(statement: Statement, server: str, request: pytest.FixtureRequest) -> None:
    if server == "double":
        bench = Bench(request.getfixturevalue("double_client"), "test")
    else:
        names = ("aerospike_client", "aerospike_namespace")
        bench = Bench(*(request.getfixturevalue(name) for name in names))
    assert attempt(lambda: statement.run(bench)) == statement.expected


def test_statements_have_names_of_their_own_and_say_what_they_serve() -> None:
    names = Counter(statement.name for statement in STATEMENTS)
    assert [name for name, count in names.items() if count > 1] == []
    assert all(statement.serves for statement in STATEMENTS)

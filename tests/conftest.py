"""What all core tests share: the marker for tests that need a backend, which is a distribution of its own."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest
from hypothesis import settings

# How long an example takes says something about a busy machine, and nothing about the code.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "needs_memory: runs on the in-memory backend; skipped where solus-memory is not installed"
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("needs_memory") is None or find_spec("solus_memory") is not None:
        return
    if os.environ.get("SOLUS_REQUIRE_MEMORY") == "1":
        pytest.fail("SOLUS_REQUIRE_MEMORY=1 and solus-memory is not installed", pytrace=False)
    pytest.skip("needs solus-memory: pip install ./plugins/solus_memory")

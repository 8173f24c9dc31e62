"""A double of an Aerospike server for tests: the wire protocol, driven by the real client; standard library only.

``Double`` runs in the test's process, with hooks to delay, fail or lose a command, to freeze and to stop, counters of
commands and a clock that can be moved; ``python -m aerospike_double`` is the same as a process of its own. What it
does was compared with a real server: see ``test_aerospike_statements.py``.
"""

from aerospike_double.hooks import Gate, Hooks, Rule
from aerospike_double.server import Double
from aerospike_double.store import Namespace

__all__ = ["Double", "Gate", "Hooks", "Namespace", "Rule"]

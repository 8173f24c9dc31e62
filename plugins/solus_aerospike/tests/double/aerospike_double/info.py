"""Info commands: text in, text out, one a line."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from aerospike_double.store import Namespace

BUILD = "8.1.2.0"
ALL_PARTITIONS = base64.b64encode(b"\xff" * 512).decode()


class Info:
    """Answers the info commands that the client and Solus send.

    Args:
        node: The name of the node, 16 hexadecimal digits.
        namespaces: By name.
    """

    def __init__(self, node: str, namespaces: Mapping[str, Namespace]) -> None:
        self.node = node
        self.namespaces = namespaces

    def answer(self, request: str) -> str:
        """Lines of name, tab, value for the lines of ``request``."""
        return "".join(f"{line}\t{self._one(line)}\n" for line in request.split("\n") if line)

    def _one(self, line: str) -> str:
        name, _, argument = line.partition("/") if ":" not in line.partition("/")[0] else (line, "", "")
        command, _, values = line.partition(":")
        if values:
            return self._command(command, dict(pair.partition("=")[::2] for pair in values.split(";")))
        fixed = {
            "node": self.node,
            "build": BUILD,
            "version": f"Aerospike Community Edition build {BUILD}",
            "edition": "Aerospike Community Edition",
            "cluster-name": "null",
            "partition-generation": "0",
            "peers-generation": "0",
            "rebalance-generation": "0",
            "peers-clear-std": "0,3000,[]",
            "peers-clear-alt": "0,3000,[]",
            "peers-tls-std": "0,4333,[]",
            "namespaces": ";".join(self.namespaces),
            "replicas": "".join(f"{ns}:0,1,{ALL_PARTITIONS};" for ns in self.namespaces),
            "features": "batch-any;blob-bits;cdt-list;cdt-map;pscans;query-show;relaxed-sc;replicas",
            "status": "ok",
        }
        if line in fixed:
            return fixed[line]
        if name == "namespace":
            return self._namespace(argument)
        if name == "sets":
            return self._sets(argument)
        return "ERROR:4:unrecognized command"

    def _namespace(self, name: str) -> str:
        namespace = self.namespaces.get(name)
        if namespace is None:
            return "type=unknown"
        known: dict[str, object] = {
            "ns_cluster_size": 1,
            "effective_replication_factor": 1,
            "objects": sum(1 for _ in namespace.live()),
            "tombstones": 0,
            "stop_writes": namespace.stop_writes,
            "hwm_breached": False,
            "allow-ttl-without-nsup": namespace.allow_ttl_without_nsup,
            "default-ttl": namespace.default_ttl,
            "max-record-size": namespace.max_record_size,
            "nsup-period": namespace.nsup_period,
            "replication-factor": 1,
            "strong-consistency": False,
            "storage-engine": "memory",
        }
        return ";".join(f"{key}={str(value).lower()}" for key, value in known.items())

    def _sets(self, argument: str) -> str:
        wanted, _, only = argument.partition("/")
        if wanted and wanted not in self.namespaces:
            return "ns_type=unknown"
        lines = []
        for name, namespace in self.namespaces.items():
            if wanted and name != wanted:
                continue
            for set_name, count in namespace.objects_by_set().items():
                if set_name and (not only or set_name == only):
                    index = str(set_name in namespace.set_indexes.values()).lower()
                    lines.append(f"ns={name}:set={set_name}:objects={count}:tombstones=0:enable-index={index}")
        return ";".join(lines) + (";" if lines else "")

    def _command(self, command: str, values: dict[str, str]) -> str:  # noqa: PLR0911  # one return a command
        if command in ("user-agent-set", "jobs", "query-abort"):
            return "ok"
        namespace = self.namespaces.get(values.get("namespace") or values.get("ns") or values.get("id") or "")
        if namespace is None:
            return "ERROR:20:namespace not found on node"
        set_name = values.get("set", "")
        if command == "truncate":
            for record in list(namespace.live()):
                if record.set_name.decode() == set_name:
                    del namespace.records[record.digest]
            return "ok"
        index = values.get("indexname", "")
        if command == "sindex-list":
            known = namespace.set_indexes.items()
            return "".join(f";ns={namespace.name}:indexname={name}:set={of}:indextype=set" for name, of in known)
        if command == "sindex-create":
            if namespace.set_indexes.setdefault(index, set_name) != set_name:
                return "ERROR:200:'indexname' already exists with different definition"
            return "ok"
        if command == "sindex-delete":
            namespace.set_indexes.pop(index, None)
            return "ok"
        if command == "sindex-stat":
            return "load_pct=100" if index in namespace.set_indexes else "ERROR:201:no index"
        if command == "sindex-exists":
            return str(index in namespace.set_indexes).lower()
        return "ERROR:4:unrecognized command"

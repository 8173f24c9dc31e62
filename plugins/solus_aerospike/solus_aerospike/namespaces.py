"""Makes sure that the namespace can be used before the first entity comes."""

from __future__ import annotations

from solus_aerospike.context import AerospikeContext
from solus_core.errors import ErrorCode, StoreError


def check_namespace(context: AerospikeContext) -> int:
    """Raise ``StoreError`` unless the namespace exists and keeps records with a TTL, on every node that is asked.

    Answers how many bytes a record may have there (``max-record-size``).
    """
    name = context.config.namespace
    command = f"namespace/{name}"
    nodes = context.caller.read(
        f"asking about namespace {name!r}", lambda: context.client.info_all(command, context.info_policy)
    )
    sizes = []
    for node, (error, text) in nodes.items():
        if error is not None or text is None:
            raise StoreError(ErrorCode.AEROSPIKE_ERROR, f"node {node} did not tell about namespace {name!r}: {error}")
        settings = dict(item.partition("=")[::2] for item in text.rpartition("\t")[2].strip().split(";"))
        if "nsup-period" not in settings:
            raise StoreError(
                ErrorCode.AEROSPIKE_ERROR,
                f"namespace {name!r} is not there on node {node}: use one that is ({_there(context)}), or add it to "
                "the server's configuration (namespaces can't be made from outside)",
            )
        if settings["nsup-period"] == "0" and settings.get("allow-ttl-without-nsup") != "true":
            raise StoreError(
                ErrorCode.AEROSPIKE_ERROR,
                f"namespace {name!r} refuses records with a TTL on node {node}: set nsup-period to more than 0 there "
                "(120, say), which also removes what has expired",
            )
        sizes.append(int(settings["max-record-size"]))
    return min(sizes)


def _there(context: AerospikeContext) -> str:
    nodes = context.caller.read(
        "asking for namespaces", lambda: context.client.info_all("namespaces", context.info_policy)
    )
    found = {name for _, text in nodes.values() if text for name in text.rpartition("\t")[2].strip().split(";")}
    return ", ".join(sorted(found)) or "there is none"

"""The settings of a small HBase that starts quickly, keeps to this machine and fails fast."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

from attrs import frozen


@frozen
class Ports:
    """What the parts of one server listen on."""

    zookeeper: int
    master: int
    region_server: int


def site(directory: Path, ports: Ports) -> dict[str, str]:
    """The properties of ``hbase-site.xml`` for a server that keeps everything in ``directory``."""
    return {
        "hbase.cluster.distributed": "false",
        "hbase.rootdir": (directory / "data").as_uri(),
        "hbase.tmp.dir": str(directory / "tmp"),
        "hbase.zookeeper.property.dataDir": str(directory / "zookeeper"),
        # The local file system can't promise that what is flushed is on the disk.
        "hbase.unsafe.stream.capability.enforce": "false",
        # Everything on this machine alone.
        "hbase.zookeeper.quorum": "127.0.0.1",
        "hbase.zookeeper.property.clientPort": str(ports.zookeeper),
        "hbase.zookeeper.property.clientPortAddress": "127.0.0.1",
        "hbase.master.port": str(ports.master),
        "hbase.master.hostname": "localhost",
        "hbase.master.ipc.address": "127.0.0.1",
        "hbase.regionserver.port": str(ports.region_server),
        "hbase.unsafe.regionserver.hostname": "localhost",
        "hbase.regionserver.ipc.address": "127.0.0.1",
        "hbase.master.info.port": "-1",
        "hbase.regionserver.info.port": "-1",
        "hbase.thrift.info.port": "-1",
        # A machine may stall, or be suspended; the master would take itself for dead after 10 s. A ZooKeeper grants
        # 20 ticks at most. Nobody ever waits for a session to end: ZooKeeper begins anew with the master.
        "zookeeper.session.timeout.localHBaseCluster": "3600000",
        "hbase.zookeeper.property.tickTime": "180000",
        # A quick start.
        "hbase.regionserver.msginterval": "100",
        "hbase.server.thread.wakefrequency": "100",
        "hbase.master.wait.on.regionservers.interval": "50",
        "hbase.master.wait.on.regionservers.timeout": "300",
        # Small: with mslab each region that is written to takes 2 MiB, and tables here have 256.
        "hbase.hregion.memstore.mslab.enabled": "false",
        "hbase.regionserver.handler.count": "10",
        "hbase.master.handler.count": "4",
        # The gateways tell of trouble after a second, not after minutes.
        "hbase.client.retries.number": "10",
        "hbase.client.pause": "10",
    }


def write_conf(folder: Path, hbase_site: Mapping[str, str], core_site: Mapping[str, str] | None = None) -> None:
    """Fill ``folder``, which goes on the class path of one process."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hbase-site.xml").write_bytes(_xml(hbase_site))
    if core_site:
        (folder / "core-site.xml").write_bytes(_xml(core_site))
    (folder / "log4j.properties").write_text((files("solus_hbase.dev_server") / "log4j.properties").read_text())


def _xml(properties: Mapping[str, str]) -> bytes:
    root = ElementTree.Element("configuration")
    for name, value in properties.items():
        entry = ElementTree.SubElement(root, "property")
        ElementTree.SubElement(entry, "name").text = name
        ElementTree.SubElement(entry, "value").text = value
    ElementTree.indent(root)
    answer: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return answer

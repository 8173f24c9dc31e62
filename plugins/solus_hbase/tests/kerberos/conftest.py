"""A Kerberos realm on this machine, and an HBase that asks for its tickets. Nothing in /etc is read or changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final, final

import pytest
from attrs import frozen

from solus_hbase.dev_server import HBaseServer
from solus_hbase.dev_server.process import HOST, Process, free_ports

REALM: Final = "SOLUS.TEST"
PACKAGES: Final = "apt-get install krb5-kdc krb5-admin-server libkrb5-dev; pip install gssapi"
START_SECONDS: Final = 30

# Kerberos over TCP alone, and no name is looked up: "localhost" is what it is called.
KRB5_CONF: Final = """\
[libdefaults]
    default_realm = {realm}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
    default_ccache_name = FILE:{folder}/no_tickets
[realms]
    {realm} = {{
        kdc = {host}:{port}
    }}
[domain_realm]
    localhost = {realm}
[logging]
    kdc = FILE:{folder}/kdc.log
"""
KDC_CONF: Final = """\
[realms]
    {realm} = {{
        kdc_listen = {host}:{port}
        kdc_tcp_listen = {host}:{port}
        database_name = {folder}/principal
        key_stash_file = {folder}/stash
        acl_file = {folder}/acl
        supported_enctypes = aes256-cts:normal
        max_life = 1h
    }}
"""


@final
@frozen
class Kdc:
    """A key distribution centre. ``krb5_conf`` is what its clients are configured with."""

    folder: Path
    port: int

    @property
    def krb5_conf(self) -> Path:
        return self.folder / "krb5.conf"

    @property
    def environment(self) -> dict[str, str]:
        return {"KRB5_CONFIG": str(self.krb5_conf), "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf")}

    def create(self) -> None:
        """Write the settings and an empty database."""
        values = {"realm": REALM, "host": HOST, "port": self.port, "folder": self.folder}
        self.krb5_conf.write_text(KRB5_CONF.format(**values))
        (self.folder / "kdc.conf").write_text(KDC_CONF.format(**values))
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")

    def process(self) -> Process:
        """The centre itself, to start, kill and start again."""
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        command = ["env", *variables, str(tool("krb5kdc")), "-n"]
        return Process("krb5kdc", command, self.folder / "process.log", (self.port,))

    def keytab(self, principal: str, *, ticket_seconds: int = 3600) -> Path:
        """A new principal, whose tickets last that long; answers the file with its key."""
        file = self.folder / f"{principal.replace('/', '.')}.keytab"
        self._run("kadmin.local", "addprinc", "-randkey", "-maxlife", f"{ticket_seconds} seconds", principal)
        self._run("kadmin.local", "ktadd", "-k", str(file), principal)
        return file

    def _run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(tool(name)), *arguments], env=self.environment, capture_output=True, text=True, check=False
        )
        assert not done.returncode, done.stderr


@final
@frozen
class KerberosHBase:
    """A secure HBase whose service is ``hbase@localhost``, and somebody who may use it."""

    server: HBaseServer
    kdc: Kdc
    principal: str
    keytab: Path


def tool(name: str) -> str | None:
    """Debian keeps the centre's programs where only root looks for them."""
    return shutil.which(name, path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"]))


def missing() -> str:
    """What there is too little of for a realm of one's own."""
    absent = [name for name in ("krb5kdc", "kdb5_util", "kadmin.local") if tool(name) is None]
    if find_spec("gssapi") is None:
        absent.append("the Python package gssapi")
    return ", ".join(absent)


@pytest.fixture(scope="session")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """A running centre; this process is a client of it for as long as it runs. Its own tickets are none."""
    absent = missing()
    if absent and os.environ.get("SOLUS_REQUIRE_KERBEROS") == "1":
        pytest.fail(f"SOLUS_REQUIRE_KERBEROS=1 and missing: {absent}: {PACKAGES}", pytrace=False)
    if absent:
        pytest.skip(f"needs a Kerberos realm, missing: {absent}: {PACKAGES}")
    (port,) = free_ports(1)
    centre = Kdc(tmp_path_factory.mktemp("kdc"), port)
    centre.create()
    process = centre.process()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in centre.environment.items():
            patch.setenv(name, value)
        patch.delenv("KRB5CCNAME", raising=False)
        try:
            process.start()
            process.wait_until_ready(time.monotonic() + START_SECONDS)
            yield centre
        finally:
            process.kill()


@pytest.fixture(scope="session")
def kerberos_hbase(hbase_tools: None, kdc: Kdc) -> Iterator[KerberosHBase]:
    """A server of its own: security is a property of all of it."""
    service = f"hbase/localhost@{REALM}"
    keytab = str(kdc.keytab(service))
    hbase_site = {
        "hbase.security.authentication": "kerberos",
        "hbase.master.kerberos.principal": service,
        "hbase.master.keytab.file": keytab,
        "hbase.regionserver.kerberos.principal": service,
        "hbase.regionserver.keytab.file": keytab,
        "hbase.thrift.kerberos.principal": service,
        "hbase.thrift.keytab.file": keytab,
        "hbase.thrift.security.qop": "auth",
    }
    user = f"reader@{REALM}"
    with HBaseServer(
        hbase_site=hbase_site,
        core_site={"hadoop.security.authentication": "kerberos"},
        # Hadoop 2 looks into what Java 17 keeps closed.
        jvm_options=[
            f"-Djava.security.krb5.conf={kdc.krb5_conf}",
            "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
        ],
    ) as server:
        yield KerberosHBase(server, kdc, user, kdc.keytab(user))

"""Image registries for one test, on loopback or an address that the cluster reaches, and buildah's files."""

import base64
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from trainstack.local_cluster import certificates
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.images import Registry, helpers
from trainstack.local_cluster.processes import wait_until
from trainstack.local_cluster.registry_access import SERVER, RegistryAccess
from trainstack.runs.images.references import mirror_reference
from trainstack.toolchain.places import cache_root

START_SECONDS = 20.0
USER, PASSWORD = "ann", "secret"
HTPASSWD = "ann:$2b$04$/UJ4QkIk.dF6WpOAlXC1BuOZbbYsbKTYd9E5J/9N9o9kibojQTR96\n"
"""The bcrypt hash of PASSWORD."""


def free_port(host: str = "127.0.0.1") -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port


def make_access(folder: Path, host: str = "127.0.0.1") -> RegistryAccess:
    """Return access with a free address of this machine, and issue certificates for it."""
    access = RegistryAccess(f"{host}:{free_port(host)}", folder / "certs")
    access.certs.mkdir()
    certificates.issue_registry_certificates(access.certs, host)
    return access


@contextmanager
def running_registry(folder: Path, access: RegistryAccess, text: str) -> Iterator[None]:
    """Run a registry with this configuration."""
    # The registry reads these variables as settings.
    env = {key: value for key, value in os.environ.items() if not key.startswith("REGISTRY_")}
    file, log_file = folder / "registry.yml", folder / "registry.log"
    file.write_text(text)
    with log_file.open("w") as log:
        process = subprocess.Popen(["docker-registry", "serve", str(file)], stdout=log, stderr=log, env=env)
    try:
        assert wait_until(lambda: is_responding(access), START_SECONDS, 0.05), log_file.read_text()
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def running_private_registry(folder: Path, access: RegistryAccess) -> Iterator[None]:
    """Run a registry with a password and TLS. Buildah with the folder's `buildah_variables` trusts its authority."""
    (folder / "htpasswd").write_text(HTPASSWD)
    trusted = folder / "home" / ".config" / "containers" / "certs.d" / access.address
    trusted.mkdir(parents=True)
    shutil.copy(access.authority, trusted / "ca.crt")
    pair = {"certificate": f"{access.certs}/{SERVER}.crt", "key": f"{access.certs}/{SERVER}.key"}
    settings = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(folder / "blobs")}},
        "http": {"addr": access.address, "tls": pair},
        "auth": {"htpasswd": {"realm": "lab", "path": str(folder / "htpasswd")}},
    }
    with running_registry(folder, access, yaml.safe_dump(settings)):
        yield


@contextmanager
def pulled_by_nodes(cluster: LocalCluster, access: RegistryAccess) -> Iterator[None]:
    """Configure the nodes to pull from the registry itself instead of the cluster's mirror."""
    folder = cluster.state / "config" / "registries" / access.address
    folder.mkdir()
    (folder / "hosts.toml").write_text(
        f'server = "https://{access.address}"\n[host."https://{access.address}"]\nca = "{access.authority}"\n'
    )
    try:
        yield
    finally:
        shutil.rmtree(folder)


def is_responding(registry: RegistryAccess) -> bool:
    """Return whether the registry responds, even if it requires a password."""
    try:
        Registry(registry).digest(mirror_reference("nothing"))
    except LocalClusterError as error:
        return "returned 401" in str(error)
    return True


def buildah_variables(folder: Path) -> dict[str, str]:
    """Return the environment variables of buildah with its files in the folder."""
    settings = folder / "storage.conf"
    graph, run = folder / "graph", folder / "run"
    settings.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{graph}"\nrunroot = "{run}"\n')
    return {
        "HOME": str(folder / "home"),
        # The project's tools are still used from their cache.
        "XDG_CACHE_HOME": str(cache_root().parent),
        "CONTAINERS_STORAGE_CONF": str(settings),
        "BUILDAH_ISOLATION": "chroot",
        "REGISTRY_AUTH_FILE": str(folder / "auth.json"),
    }


def log_in(folder: Path, registry: str, password: str) -> None:
    """Write the user's credentials like `buildah login`, but without checking them."""
    auth = base64.b64encode(f"{USER}:{password}".encode()).decode()
    (folder / "auth.json").write_text(json.dumps({"auths": {registry: {"auth": auth}}}))


def buildah_login(registry: str) -> None:
    """Log in as the user does."""
    login = ["buildah", "login", "--username", USER, "--password-stdin", registry]
    subprocess.run(login, input=PASSWORD, text=True, check=True, capture_output=True)


def write_dockerfile(folder: Path) -> None:
    """Write a Dockerfile that copies busybox and runs one command."""
    (program,) = helpers()[0].programs.values()
    shutil.copy(program, folder / "busybox")
    (folder / "Dockerfile").write_text('FROM scratch\nCOPY busybox /bin/sh\nRUN ["/bin/sh", "-c", ": > /made"]\n')

"""Image registries of a test's own, on loopback or on an address that the cluster reaches."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster import certificates
from devcluster.errors import ClusterError
from devcluster.images import Registry
from devcluster.images.registry import target
from devcluster.processes import wait_until
from devcluster.registry_access import RegistryAccess

START_SECONDS = 20.0


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nothing listens on just now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port


def make_access(folder: Path, host: str = "127.0.0.1") -> RegistryAccess:
    """A free address of this machine, and certificates for it."""
    access = RegistryAccess(f"{host}:{free_port(host)}", folder / "certs")
    access.certs.mkdir()
    certificates.issue_registry(access.certs, host)
    return access


@contextmanager
def served(folder: Path, access: RegistryAccess, text: str) -> Iterator[None]:
    """Run a registry with this configuration."""
    # The registry takes such variables for settings of its own.
    env = {key: value for key, value in os.environ.items() if not key.startswith("REGISTRY_")}
    file, log_file = folder / "registry.yml", folder / "registry.log"
    file.write_text(text)
    with log_file.open("w") as log:
        process = subprocess.Popen(["docker-registry", "serve", str(file)], stdout=log, stderr=log, env=env)
    try:
        assert wait_until(lambda: answers(access), START_SECONDS, 0.05), log_file.read_text()
        yield
    finally:
        process.terminate()
        process.wait()


def answers(registry: RegistryAccess) -> bool:
    """Whether a registry answers there, be it that it asks for a password."""
    try:
        Registry(registry).digest(target("nothing"))
    except ClusterError as error:
        return "answered 401" in str(error)
    return True

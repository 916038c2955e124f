"""A registry with a password and TLS, as a user has it, and the shell in which he has logged in to it."""

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from devcluster.registry_access import SERVER
from tests.cluster.page import Page
from tests.cluster.registries import make_access, served
from tests.cluster.test_private_registry import HTPASSWD, PASSWORD, USER, write_dockerfile
from toolchain.places import cache_root


@dataclass(frozen=True)
class UsersRegistry:
    """The registry of a user."""

    address: str
    variables: dict[str, str]
    """Of the shell in which `buildah login` has been done."""


@contextmanager
def users_registry(folder: Path) -> Iterator[UsersRegistry]:
    """Run it for as long as the block runs; buildah's files are in the folder."""
    access, home = make_access(folder), folder / "home"
    (folder / "htpasswd").write_text(HTPASSWD)
    trusted = home / ".config" / "containers" / "certs.d" / access.address
    trusted.mkdir(parents=True)
    shutil.copy(access.authority, trusted / "ca.crt")
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    (folder / "auth.json").write_text(json.dumps({"auths": {access.address: {"auth": auth}}}))
    storage = f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
    (folder / "storage.conf").write_text(storage)
    settings = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(folder / "blobs")}},
        "http": {
            "addr": access.address,
            "tls": {"certificate": f"{access.certs}/{SERVER}.crt", "key": f"{access.certs}/{SERVER}.key"},
        },
        "auth": {"htpasswd": {"realm": "lab", "path": str(folder / "htpasswd")}},
    }
    variables = {
        "HOME": str(home),
        # The toolchain's programs are below the real home.
        "XDG_CACHE_HOME": str(cache_root().parent),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        "BUILDAH_ISOLATION": "chroot",
        "REGISTRY_AUTH_FILE": str(folder / "auth.json"),
    }
    with served(folder, access, yaml.safe_dump(settings)):
        yield UsersRegistry(access.address, variables)


def executed_image_rows(page: Page, registry: UsersRegistry, workload: str, image: str) -> None:
    """Build, push and list an image of the user's own Dockerfile, under a name in his registry.

    The cluster trains on the published image, which the environment names again afterwards.
    """
    folder, file = page.project.root / "workloads" / workload, page.project.root / f"Pulumi.{page.project.stack}.yaml"
    text, reference = file.read_text(), f"{registry.address}/{image}"
    assert text.count(image) == 2
    folder.mkdir()
    try:
        write_dockerfile(folder)
        file.write_text(text.replace(image, reference))
        printed = [
            page.type(f"trainstack image {words} -s {page.project.stack}", variables=registry.variables).out
            for words in (f"build {workload}", f"push {workload}", "list")
        ]
    finally:
        file.write_text(text)
        shutil.rmtree(folder)
    built, pushed, listed = printed
    assert built == f"{reference}\n"
    name, _, digest = pushed.strip().partition("@")
    assert name == reference
    assert digest.startswith("sha256:")
    # The table shortens long names.
    (line,) = (line for line in listed.splitlines() if line.startswith(workload))
    assert " pushed " in line
    assert digest[:40] in line

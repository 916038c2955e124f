"""A user's registry with a password and TLS, and the environment after `buildah login`."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.page import Page
from tests.cluster.registries import (
    PASSWORD,
    buildah_variables,
    log_in,
    make_access,
    running_private_registry,
    write_dockerfile,
)


@dataclass(frozen=True)
class UsersRegistry:
    """The registry of a user."""

    address: str
    variables: dict[str, str]
    """The environment variables after `buildah login`."""


@contextmanager
def users_registry(folder: Path) -> Iterator[UsersRegistry]:
    """Run the registry for the duration of the block; buildah's files are in the folder."""
    access = make_access(folder)
    log_in(folder, access.address, PASSWORD)
    with running_private_registry(folder, access):
        yield UsersRegistry(access.address, buildah_variables(folder))


def execute_image_rows(page: Page, registry: UsersRegistry, workload: str, image: str) -> None:
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

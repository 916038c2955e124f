"""Builds, pushes, skips and runs of images with buildah and a registry, without remnants."""

import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster.image_runs import run_in_image
from tests.cluster.registries import free_port, make_access, running_registry
from trainstack.local_cluster import config
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.images import ImageStorage, Recipe, Registry, ensure_images, helpers
from trainstack.local_cluster.images.storage import UNSHARE_COMMAND
from trainstack.local_cluster.processes import wait_until
from trainstack.local_cluster.registry_access import RegistryAccess
from trainstack.runs.images.references import mirror_reference

pytestmark = pytest.mark.cluster


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RegistryAccess]:
    """Yield an empty registry of the test with the local cluster's configuration."""
    access = make_access(tmp_path)
    with running_registry(tmp_path, access, config.registry_config(access, tmp_path / "blobs")):
        yield access


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[ImageStorage]:
    """Yield a storage of the test; no mount and no working container of it may remain."""
    storage = ImageStorage(tmp_path / "images")
    yield storage
    assert storage.run("containers", "--quiet") == ""
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()


def make_recipe(folder: Path, text: str = "hello", serve_as: tuple[str, ...] = ()) -> Recipe:
    """Write a tiny image's build context (busybox, a file, a user) and return its recipe."""
    folder.mkdir(exist_ok=True)
    (folder / "Dockerfile").write_text(
        'FROM scratch\nCOPY busybox /bin/sh\nCOPY text /text\nRUN ["/bin/sh", "-c", ": > /made"]\nUSER 1000:1000\n'
    )
    (folder / "text").write_text(text)
    return Recipe("tiny", folder, programs=helpers()[0].programs, serve_as=serve_as)


def test_an_image_is_built_pushed_served_and_skipped(
    tmp_path: Path, storage: ImageStorage, registry: RegistryAccess
) -> None:
    """The registry has one digest under all names of the image; the second call builds and pushes nothing."""
    messages: list[str] = []
    recipe = make_recipe(tmp_path / "tiny", serve_as=("docker.io/some/body:1.0", "busybox"))
    (image,) = ensure_images([recipe], registry, messages.append, storage)
    digests = {
        Registry(registry).digest(mirror_reference(name)) for name in (image, "some/body:1.0", "library/busybox:latest")
    }
    assert len(digests) == 1
    assert None not in digests
    assert [line.split(" in ")[0] for line in messages[-3:]] == [
        f"pushed {image}",
        "pushed docker.io/some/body:1.0",
        "pushed busybox",
    ]
    messages.clear()
    assert ensure_images([recipe], registry, messages.append, storage) == [image]
    assert messages == ["the registry has all 3 images"]


def test_an_edited_image_is_a_new_image(tmp_path: Path, storage: ImageStorage, registry: RegistryAccess) -> None:
    """The registry keeps both; the served name moves to the new one."""
    old = ensure_images([make_recipe(tmp_path / "tiny", "a", ("body:1",))], registry, print, storage)
    new = ensure_images([make_recipe(tmp_path / "tiny", "b", ("body:1",))], registry, print, storage)
    digest = Registry(registry).digest
    assert digest(mirror_reference(old[0])) not in (None, digest(mirror_reference(new[0])))
    assert digest(mirror_reference("body:1")) == digest(mirror_reference(new[0]))


def test_the_same_files_give_the_same_digest(tmp_path: Path, storage: ImageStorage, registry: RegistryAccess) -> None:
    """Two builds in separate storages."""
    ensure_images([make_recipe(tmp_path / "tiny")], registry, print, storage)
    messages: list[str] = []
    ensure_images([make_recipe(tmp_path / "tiny")], registry, messages.append, ImageStorage(tmp_path / "second"))
    assert not [line for line in messages if line.startswith("pushed")]


def test_run_in_image(tmp_path: Path, storage: ImageStorage, registry: RegistryAccess) -> None:
    """The command runs as the image's user with the mounted folder; its exit code and output are returned."""
    (image,) = ensure_images([make_recipe(tmp_path / "tiny")], registry, print, storage)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    done = run_in_image(
        image, ["/bin/sh", "-c", "read x < /text; echo $x > /out/y; echo $x; exit 3"], {shared: "/out"}, storage
    )
    assert (done.returncode, done.stdout) == (3, "hello\n")
    assert (shared / "y").read_text() == "hello\n"
    assert (shared / "y").stat().st_uid == 1000


def test_an_image_that_was_not_built_is_refused(storage: ImageStorage) -> None:
    """The error names the image and the command that builds it."""
    with pytest.raises(
        LocalClusterError, match=r"image registry.local/trainstack/none:1 has not been built.*cluster load"
    ):
        run_in_image("registry.local/trainstack/none:1", ["true"], {}, storage)


def test_a_failed_build_gives_the_reason(tmp_path: Path, storage: ImageStorage, registry: RegistryAccess) -> None:
    """The error has the exit code of the failed step; nothing is pushed."""
    recipe = make_recipe(tmp_path / "tiny")
    with (tmp_path / "tiny" / "Dockerfile").open("a") as file:
        file.write('USER 0\nRUN ["/bin/sh", "-c", "echo broken step >&2; exit 9"]\n')
    with pytest.raises(LocalClusterError, match=r"exit (code|status) 9"):
        ensure_images([recipe], registry, print, storage)
    assert Registry(registry).digest(mirror_reference(recipe.image)) is None


def test_remnants_of_a_killed_builder_are_removed(
    tmp_path: Path, storage: ImageStorage, registry: RegistryAccess
) -> None:
    """A working container is removed if its process has exited, and kept if it runs."""
    subprocess.run(
        [*UNSHARE_COMMAND, *storage.buildah("from", "--name", "trainstack-999999999-base-0", "scratch")], check=True
    )
    own_container = f"trainstack-{os.getpid()}-run-0"
    subprocess.run([*UNSHARE_COMMAND, *storage.buildah("from", "--name", own_container, "scratch")], check=True)
    ensure_images([make_recipe(tmp_path / "tiny")], registry, print, storage)
    assert storage.run("containers", "--format", "{{.ContainerName}}").split() == [own_container]
    storage.run("rm", own_container)


def test_concurrent_builds_build_once(tmp_path: Path, storage: ImageStorage, registry: RegistryAccess) -> None:
    """The second waits, reports it, and finds the image built."""
    recipe, first, second = make_recipe(tmp_path / "tiny"), list[str](), list[str]()
    with storage.lock(print):
        other = threading.Thread(target=ensure_images, args=([recipe], registry, second.append, storage))
        other.start()
        assert wait_until(lambda: bool(second), 10.0, 0.01)
    other.join()
    ensure_images([recipe], registry, first.append, storage)
    assert second[0] == "waiting for another process that is building images"
    assert first == ["the registry has all 1 images"]


def test_a_registry_that_does_not_respond_is_named(
    tmp_path: Path, storage: ImageStorage, registry: RegistryAccess
) -> None:
    """The error has the address and the remedy."""
    silent = replace(registry, address=f"127.0.0.1:{free_port()}")
    with pytest.raises(LocalClusterError, match=f"The registry at {silent.address} does not respond.*cluster status"):
        ensure_images([make_recipe(tmp_path / "tiny")], silent, print, storage)

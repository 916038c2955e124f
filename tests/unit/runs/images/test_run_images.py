"""The images of an environment's runs, and the folders from which they are built."""

from pathlib import Path

import pytest

from trainstack.runs.errors import WorkloadError
from trainstack.runs.images.content_tags import content_tag, workload_reference
from trainstack.runs.images.run_images import RunImage, base_argument, run_images
from trainstack.settings.loading.load import load_with_places

ENVIRONMENT = """\
config:
  trainstack:environment: {namespaces: [{name: lab}]}
  trainstack:cluster: {registry: registry.example.org}
  trainstack:workloads:
    runs:
"""
COMMON = "kind: Job, namespace: lab, managed: false"


def images(root: Path, *runs: str) -> list[RunImage]:
    """Return the images of an environment with these runs."""
    (root / "Pulumi.lab.yaml").write_text(ENVIRONMENT + "".join(f"      - {{{run}}}\n" for run in runs))
    loaded = load_with_places(root, "lab")
    return run_images(loaded.settings, root, loaded.places)


def dockerfile(root: Path, name: str, text: str = "FROM scratch\n") -> None:
    """Write a workload's Dockerfile."""
    (root / "workloads" / name).mkdir(parents=True)
    (root / "workloads" / name / "Dockerfile").write_text(text)


def test_a_named_image_is_built_from_the_folder_of_its_run(tmp_path: Path) -> None:
    """An image of two runs is listed once; an image without a folder cannot be built."""
    dockerfile(tmp_path, "hello")
    hello = 'image: {name: "example.org/hello:1"}'
    found = images(
        tmp_path,
        f"name: recorded, {COMMON}, {hello}",
        f"name: hello, {COMMON}, {hello}",
        f'name: theirs, {COMMON}, image: {{name: "example.org/theirs:1"}}',
    )
    runs = [f"workloads.runs[{name}]" for name in ("recorded", "hello", "theirs")]
    assert found == [
        RunImage("example.org/hello:1", ("recorded", "hello"), (runs[0], runs[1]), ("workloads/hello",)),
        RunImage("example.org/theirs:1", ("theirs",), (runs[2],)),
    ]
    assert found[0].folder == "workloads/hello"
    with pytest.raises(WorkloadError, match=r"workloads/theirs/Dockerfile does not exist"):
        _ = found[1].folder


def test_a_run_has_the_folder_of_the_workload_that_it_is_based_on(tmp_path: Path) -> None:
    """`from` names the folder, not the run's own name."""
    dockerfile(tmp_path, "hello")
    (tmp_path / "workloads" / "hello" / "workload.yaml").write_text("kind: Job\nmanaged: false\n")
    (found,) = images(tmp_path, 'name: again, from: hello, namespace: lab, image: {name: "example.org/again:1"}')
    assert (found.workloads, found.folder) == (("again",), "workloads/hello")


def test_a_built_image_is_named_by_its_content_in_the_registry_of_the_environment(tmp_path: Path) -> None:
    """The pods use the same name."""
    dockerfile(tmp_path, "hello")
    (found,) = images(tmp_path, f"name: any, {COMMON}, image: {{build: workloads/hello}}")
    reference = workload_reference(tmp_path / "workloads" / "hello", "registry.example.org")
    assert (found.reference, found.folder, found.has_content_tag, found.is_local) == (
        reference,
        "workloads/hello",
        True,
        False,
    )
    with pytest.raises(WorkloadError, match=r"workloads\.runs\[any\]\.image\.build: .*Dockerfile: no such file"):
        images(tmp_path, f"name: any, {COMMON}, image: {{build: workloads/hallo}}")


def test_an_image_with_two_dockerfiles_is_not_built(tmp_path: Path) -> None:
    """The choice would be ambiguous."""
    for name in ("one", "two"):
        dockerfile(tmp_path, name)
    runs = (f'name: {name}, {COMMON}, image: {{name: "example.org/same:1"}}' for name in ("one", "two"))
    (found,) = images(tmp_path, *runs)
    with pytest.raises(
        WorkloadError, match="workloads/one/Dockerfile and workloads/two/Dockerfile both build this image"
    ):
        _ = found.folder


def test_an_image_by_digest_is_not_built(tmp_path: Path) -> None:
    """A build would have another digest."""
    dockerfile(tmp_path, "hello")
    digest = content_tag(tmp_path) * 4
    (found,) = images(tmp_path, f'name: hello, {COMMON}, image: {{name: "example.org/hello@sha256:{digest}"}}')
    assert found.folders == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ARG BASE\nFROM ${BASE}\n", "required"),
        ("# ARG BASE\n  arg base=python:3.11\nFROM ${BASE}\n", "optional"),
        ("ARG BASELINE\nFROM python\n", None),
    ],
)
def test_the_base_argument_of_a_dockerfile(text: str, expected: str | None) -> None:
    """Only an argument with exactly this name counts."""
    assert base_argument(text) == expected

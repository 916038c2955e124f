"""The files that manifests depend on."""

import hashlib
import os
import re
from pathlib import Path

import pytest

from tests.special_files import make_sparse_file
from tests.unit.make import make_manifest, make_run, make_settings, make_training_operator
from trainstack.files.regular import FileError
from trainstack.platform.operators.release import ReleaseError
from trainstack.settings.sections.operators import Kueue, Operators
from trainstack.settings.sections.workloads import Data, Image
from trainstack.stack_objects.inputs import WRAPPER_PATH, InputsError, ReleasesError, read_inputs, release_path

NO_OPERATORS = Operators()


def test_all_missing_files_are_reported_together(tmp_path: Path) -> None:
    """They are sorted, each with its setting."""
    workload = make_run(
        image=Image(build="workloads/none"), data=Data(manifest="data.json", volume="training", path="data")
    )
    with pytest.raises(InputsError) as error:
        read_inputs(make_settings(workload, operators=NO_OPERATORS), tmp_path, commit="abc")
    first, second = str(error.value).splitlines()
    assert "data.manifest: data.json" in first
    assert "image.build: workloads/none" in second


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("data.json", "leads out of the project"),
        ("../data.json", "leads out of the project"),
        ("pipe", "is a FIFO"),
        ("endless", "is larger than 256 MiB"),
    ],
)
def test_a_data_manifest_is_a_regular_file_of_the_project(tmp_path: Path, name: str, words: str) -> None:
    """A branch of an untrusted author may name any file."""
    root = tmp_path / "project"
    root.mkdir()
    (tmp_path / "data.json").write_text("{}")
    (root / "data.json").symlink_to(tmp_path / "data.json")
    os.mkfifo(root / "pipe")
    make_sparse_file(root / "endless")
    workload = make_run(data=Data(manifest=name, volume="training", path="data"))
    with pytest.raises(InputsError, match=f"data.manifest: {re.escape(name)}: {words}"):
        read_inputs(make_settings(workload, operators=NO_OPERATORS), root, commit="abc")


@pytest.mark.parametrize("build", ["..", "link", "large"])
def test_an_image_is_built_from_a_folder_of_the_project(tmp_path: Path, build: str) -> None:
    """Another folder may have private files, and a whole disk would be read."""
    root = tmp_path / "project"
    (root / "large").mkdir(parents=True)
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    (root / "large" / "Dockerfile").write_text("FROM scratch\n")
    make_sparse_file(root / "large" / "endless")
    (root / "link").symlink_to(tmp_path)
    words = "is a build context of more than 64 GiB" if build == "large" else "leads out of the project"
    with pytest.raises(InputsError, match=f"image.build: {re.escape(build)}: {words}"):
        read_inputs(make_settings(make_run(image=Image(build=build)), operators=NO_OPERATORS), root, commit="abc")


def test_the_wrapper_is_not_a_file_outside_of_the_project(tmp_path: Path) -> None:
    """The wrapper's text becomes an object of the cluster."""
    wrapper = tmp_path / "project" / WRAPPER_PATH
    wrapper.parent.mkdir(parents=True)
    wrapper.symlink_to("/etc/hostname")
    with pytest.raises(FileError, match="leads out of the project"):
        read_inputs(make_settings(make_run(), operators=NO_OPERATORS), tmp_path / "project", commit="abc")


def test_inputs_are_read_from_the_project(tmp_path: Path) -> None:
    """They are the release's objects, the image's name, the data's digest, and the wrapper."""
    release = b"{apiVersion: v1, kind: Namespace, metadata: {name: kueue-system}}"
    (tmp_path / "release.yaml").write_bytes(release)
    (tmp_path / "data.json").write_bytes(b"{}")
    for file, content in (("trainstack/runs/wrapper/run.py", "print()"), ("mine/Dockerfile", "FROM scratch\n")):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(content)
    digest = hashlib.sha256(release).hexdigest()
    operators = Operators(kueue=Kueue(manifest=make_manifest(url=None, path="release.yaml", sha256=digest)))
    data = Data(manifest="data.json", volume="training", path="data")
    workload = make_run(image=Image(build="mine"), data=data)
    inputs = read_inputs(make_settings(workload, operators=operators), tmp_path, commit="abc")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}}
    assert inputs.releases == {"kueue": (namespace,)}
    assert inputs.data_digests == {"data.json": hashlib.sha256(b"{}").hexdigest()}
    assert inputs.images["mine"].partition(":")[0].endswith("/mine")
    assert (inputs.wrapper, inputs.commit) == ("print()", "abc")


def test_a_release_by_its_address_has_no_file() -> None:
    """The caller replaces the address by the path of the download."""
    with pytest.raises(ReleaseError, match=r"example\.org/release\.yaml: the release manifest was not downloaded; run"):
        release_path(make_manifest(), Path("/p"))
    assert release_path(make_manifest(url=None, path="/cache/release.yaml"), Path("/p")) == Path("/cache/release.yaml")


def test_all_unreadable_releases_are_reported_together(tmp_path: Path) -> None:
    """The error has the names of their operators, so that the others can be rendered."""
    missing = make_manifest(url=None, path="none.yaml")
    operators = Operators(kueue=Kueue(manifest=missing), training_operator=make_training_operator())
    with pytest.raises(ReleasesError) as error:
        read_inputs(make_settings(operators=operators), tmp_path, commit="abc")
    assert error.value.operators == ("kueue", "training-operator")
    first, second = str(error.value).splitlines()
    assert f"{tmp_path / 'none.yaml'}: the release manifest does not exist; " in first
    assert "https://example.org/release.yaml" in second
    assert operators.without(error.value.operators) == Operators()

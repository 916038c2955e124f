"""Every file that people have is converted, rendered and compared without a lost field."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.corpus_files import CORPUS, corpus_files
from trainstack.cli.app import app

NOT_TAKEN = {
    "aws/etcd-rendezvous.yaml": {"Deployment etcd": "left"},
    "kubeflow/old-mpi.yaml": {"MPIJob horovod-meadow": "left"},
    "tutorials/leader-workers.yaml": {"LeaderWorkerSet bramble": "left"},
}
"""The objects that have no place in a project, by file."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create an empty project and make it the current folder."""
    (tmp_path / "Pulumi.yaml").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def convert(*words: str, exit_code: int = 0) -> list[dict[str, Any]]:
    """Convert files, and return what became of each object."""
    result = CliRunner().invoke(app, ["convert", *words, "-s", "lab", "--json"])
    assert result.exit_code == exit_code, result.output
    report = json.loads(result.stdout)
    assert report["written"], report
    objects: list[dict[str, Any]] = report["objects"]
    return objects


def assert_complete(objects: list[dict[str, Any]]) -> None:
    """Check that no field is lost, and that each addition has a reason."""
    assert [item["object"] for item in objects if item["lost"]] == []
    assert [path for item in objects for path in item["added"] if not path["reason"]] == []
    assert all(item["place"] if item["outcome"] == "converted" else item["reason"] for item in objects)


@pytest.mark.parametrize("file", sorted({*corpus_files()} - NOT_TAKEN.keys()))
@pytest.mark.parametrize("option", ["", "--native", "--sweep"])
def test_a_file_is_converted_without_loss(root: Path, file: str, option: str) -> None:
    """In the form of a manifest, and of settings and sweeps where these are possible."""
    objects = convert(str(CORPUS / file), *filter(None, [option]))
    assert_complete(objects)
    assert {item["outcome"] for item in objects} <= {"converted", "referenced"}


@pytest.mark.parametrize("file", NOT_TAKEN)
def test_what_has_no_place_is_listed(root: Path, file: str) -> None:
    """The other objects of the file are converted."""
    result = CliRunner().invoke(app, ["convert", str(CORPUS / file), "-s", "lab", "--json"])
    assert result.exit_code == 4, result.output
    objects = json.loads(result.stdout)["objects"]
    left = {item["object"]: item["outcome"] for item in objects if item["outcome"] != "converted"}
    assert left == NOT_TAKEN[file]
    assert_complete(objects)


def test_the_folder_of_a_group_is_one_environment(root: Path) -> None:
    """Its volumes, ConfigMaps and workloads refer to each other, so that `check` has nothing to add."""
    shutil.copytree(CORPUS / "group", root / "yaml")
    assert_complete(convert("yaml"))
    checked = CliRunner().invoke(app, ["check", "-s", "lab", "--json"])
    assert checked.exit_code == 0, checked.output

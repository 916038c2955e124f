"""Names that no workload's folder can have."""

from pathlib import Path

import pytest

from settings.load import load
from settings.workload_folders import clashes, reserved_names
from tests.unit.settings.test_load import faults, make_project

ROOT = Path(__file__).resolve().parents[3]
REMEDY = "rename the folder, and change the settings that name it (`from`, `image.build`, `data`)"
MODULE = "the library has a module of this name, workloads/images.py"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A project whose library is the module `images` and the wrapper."""
    (tmp_path / "workloads" / "wrapper").mkdir(parents=True)
    for file in ("__init__.py", "images.py", "wrapper/__init__.py", "wrapper/run.py"):
        (tmp_path / "workloads" / file).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("file", "message"),
    [
        pytest.param("images/__init__.py", f"workloads/images: {MODULE}; {REMEDY}", id="a package"),
        pytest.param("images/workload.yaml", f"workloads/images: {MODULE}; {REMEDY}", id="not a package yet"),
        pytest.param("Images/workload.yaml", f"workloads/Images: {MODULE}; {REMEDY}", id="another case"),
        pytest.param(
            "wrapper/workload.yaml",
            f"workloads/wrapper: workloads/wrapper/ is the library's own folder; {REMEDY}",
            id="in the library's folder",
        ),
        pytest.param(
            "Wrapper/train.py",
            f"workloads/Wrapper: workloads/wrapper/ is the library's own folder; {REMEDY}",
            id="the library's folder in another case",
        ),
        pytest.param(
            "images/images.py", f"workloads/images: {MODULE}; {REMEDY}", id="a module of the same name is in it"
        ),
    ],
)
def test_a_folder_with_a_name_of_the_library_is_refused(library: Path, file: str, message: str) -> None:
    """With its path, what has the name already, and the remedy."""
    (library / "workloads" / file).parent.mkdir(exist_ok=True)
    (library / "workloads" / file).touch()
    assert [str(each) for each in clashes(library)] == [message]


@pytest.mark.parametrize("file", ["image/__init__.py", "images-2/workload.yaml", "train.py", "images.yaml"])
def test_other_names_are_free(library: Path, file: str) -> None:
    """Also a user's module, which no folder hides."""
    (library / "workloads" / file).parent.mkdir(exist_ok=True)
    (library / "workloads" / file).touch()
    assert clashes(library) == []


def test_a_project_without_workloads(tmp_path: Path) -> None:
    """It has nothing that could be hidden."""
    assert clashes(tmp_path) == []


def test_the_folders_of_this_checkout() -> None:
    """Every folder without a workload.yaml is the library's, and its name is reserved."""
    folders = [path.parent for path in (ROOT / "workloads").glob("*/__init__.py")]
    own = {folder.name for folder in folders if not (folder / "workload.yaml").exists()}
    assert own - reserved_names(ROOT).keys() == set()
    assert clashes(ROOT) == []


@pytest.mark.parametrize("base", ["{name: images}", "{name: train, from: images}", "{name: train}"])
def test_an_environment_is_refused_for_such_a_folder(library: Path, base: str) -> None:
    """Whether a run is based on it or not, since the engine's program would not start."""
    (library / "workloads/images").mkdir()
    root = make_project(library, f"trainstack:workloads:\n  runs: [{base}]")
    (root / "workloads/images/workload.yaml").write_text((root / "workloads/train/workload.yaml").read_text())
    assert f"workloads/images: {MODULE}; {REMEDY}" in faults(root)


def test_a_run_without_a_folder_is_not_led_to_such_a_name(library: Path) -> None:
    """The remedy for an incomplete run asks for a folder of another name."""
    root = make_project(library, "trainstack:workloads:\n  runs:\n    - {name: images, namespace: research}")
    (fault,) = faults(root)
    assert fault == (
        "Pulumi.test.yaml:4: workloads.runs[images]: is not complete by itself, and there is no "
        "workloads/images/workload.yaml to take the rest from; write one under another name (the library has a module "
        "of this name, workloads/images.py), and name it with `from:`"
    )


def test_a_whole_run_may_have_such_a_name(library: Path) -> None:
    """No folder is looked up for it."""
    run = "{name: images, namespace: research, kind: Job, managed: false, image: {name: busybox}, command: [date]}"
    load(make_project(library, f"trainstack:workloads:\n  runs: [{run}]"), "test")

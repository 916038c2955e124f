"""The number of files that a change touches, for the walks of docs/contributing.md and the way of a setting to its
object. A walk is counted by an existing example: the files of the library that mention it are those that a new one like
it touches.
"""

import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from pydantic import BaseModel

from tests.copies import copy_into
from trainstack.declared.declared import Declared
from trainstack.declared.inputs import read_inputs
from trainstack.settings.loading.load import load_with_places
from trainstack.settings.search_space.hyperparams import text_of
from trainstack.settings.search_space.space import ParameterSet
from trainstack.settings.search_space.spaces import load_space
from trainstack.settings.sections.queues import ResourceQuota
from trainstack.settings.sections.workloads import Workload
from trainstack.sweeps.search.expand import expand

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "trainstack"
PAGE = ROOT / "docs" / "contributing.md"


def named_in(heading: str) -> list[str]:
    """Return the files of the library that a section of the page links to, relative to `trainstack/`, in its order."""
    _, separator, rest = PAGE.read_text(encoding="utf-8").partition(f"# {heading}\n")
    assert separator, f"no section {heading!r}"
    return re.findall(r"\]\(\.\./trainstack/([\w/]+\.py)\)", re.split(r"^#+ ", rest, maxsplit=1, flags=re.MULTILINE)[0])


def sources() -> Iterator[tuple[str, str]]:
    """Yield each file of the library, relative to `trainstack/`, with its text."""
    for path in sorted(LIBRARY.rglob("*.py")):
        yield path.relative_to(LIBRARY).as_posix(), path.read_text(encoding="utf-8")


def mentions(text: str, *names: str) -> bool:
    """Return whether the code has a name as a name, an attribute, an argument or a whole string, docstrings aside."""
    # Only a text that has the name at all is parsed: parsing all files takes a second.
    for node in ast.walk(ast.parse(text)) if any(name in text for name in names) else ():
        match node:
            case ast.Constant(value=found) | ast.Attribute(attr=found) | ast.Name(id=found) | ast.keyword(arg=found):
                if found in names:
                    return True
    return False


def test_the_walk_of_a_queue_field() -> None:
    """The example is `flavorFungibility`, an optional field of a ClusterQueue: four files."""
    files = [file for file, text in sources() if mentions(text, "flavor_fungibility", "flavorFungibility")]
    assert len(files) == 4
    assert sorted(named_in("A new field of a ClusterQueue")) == files


def test_the_walk_of_a_field_of_pods() -> None:
    """The example is `sharedMemory`: the model and the template, and two files with rules."""
    files = [file for file, text in sources() if mentions(text, "shared_memory", "sharedMemory")]
    assert len(files) == 4
    assert sorted(named_in("A new field of a run's pods")) == files


@pytest.mark.parametrize("kind", ["MPIJob", "RayJob"])
def test_the_walk_of_a_workload_kind(kind: str) -> None:
    """The examples are the latest kinds: a module and its registration, the settings and the kind's API group."""
    files = [file for file, text in sources() if mentions(text, kind)]
    assert len(files) == 4
    assert of_kind(kind) == files


def test_the_walk_of_a_kind_with_an_operator() -> None:
    """The example is `JobSet`, whose operator environments install: four files more."""
    files = [file for file, text in sources() if mentions(text, "JobSet")]
    operator = named_in("With an operator that environments install")
    assert len(operator) == 4
    assert sorted([*of_kind("JobSet"), *operator]) == files


def of_kind(kind: str) -> list[str]:
    """Return the files of the walk of a kind, whose example is RayJob."""
    return sorted(file.replace("rayjob", kind.lower()) for file in named_in("A new workload kind"))


# The way of a setting, from the YAML text to the object, is traced: the environment below is loaded and the objects are
# built, and every call is examined. A file is a stop if one of its functions has the field's value in an argument, a
# variable or a result, or passes it to a function outside of the library (a constructor, pydantic's `model_dump`). A
# single value (`nominalQuota`, `lr`) also counts in the object or list that directly holds it; `resources` counts as a
# whole or in part. Files that only pass on more than that (a workload, a section) are not stops. The file whose model
# declares the field is one.

ENVIRONMENT = """
config:
  trainstack:environment: {namespaces: [{name: research}]}
  trainstack:queues:
    flavors: [{name: default}]
    clusterQueues:
      - name: research
        resourceGroups:
          - coveredResources: [cpu]
            flavors: [{name: default, resources: [{name: cpu, nominalQuota: 76543}]}]
    localQueues: [{name: research, namespace: research, clusterQueue: research}]
  trainstack:workloads:
    runs:
      - name: hello
        kind: Job
        namespace: research
        managed: false
        image: {name: busybox}
        resources: {requests: {cpu: 54321m}}
  trainstack:sweeps:
    sweeps:
      - name: search
        run: {kind: Job, namespace: research, managed: false, image: {name: busybox}}
"""
SPACE = """
method: grid
parameters: {lr: {values: [0.0123457]}}
objective: {metric: accuracy, direction: maximize}
args: ["--lr=${parameters.lr}"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create a project with the environment `doc`, in which each traced value occurs once."""
    copy_into(tmp_path, "defaults.yaml", "workloads")
    (tmp_path / "Pulumi.doc.yaml").write_text(ENVIRONMENT)
    sweep = tmp_path / "sweeps" / "search"
    sweep.mkdir(parents=True)
    (sweep / "space.yaml").write_text(SPACE)
    space = load_space(tmp_path, "search").space
    (sweep / "hyperparams.yml").write_text(text_of("search", space, expand(space)))
    return tmp_path


def declared(project: Path) -> Declared:
    """Load the environment."""
    settings = load_with_places(project, "doc").settings
    return Declared(settings, read_inputs(settings, project, commit=""))


def holds(value: object, text: str, depth: int) -> bool:
    """Return whether a value is the traced one or contains it up to this depth; whole files are not searched."""
    if isinstance(value, str):
        return text in value and len(value) < 80
    if isinstance(value, int | float):
        return str(value) == text
    return depth > 0 and any(holds(part, text, depth - 1) for part in parts(value))


def parts(value: object) -> list[object]:
    """Return the direct items of a collection, a model or a dataclass."""
    if isinstance(value, Mapping):
        return [*value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return [*value]
    if isinstance(value, BaseModel) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        return [*getattr(value, "__dict__", {}).values()]
    return []


def stops(build: Callable[[], object], text: str, depth: int) -> set[str]:
    """Return the files of the library whose functions have the traced value, or pass it on, while `build` runs."""
    found: set[str] = set()

    def trace(frame: FrameType, event: str, result: Any) -> Callable[[FrameType, str, Any], Any]:
        search(frame, event, result)
        return trace

    def search(frame: FrameType, event: str, result: Any) -> None:
        if event not in ("call", "line", "return"):
            return
        caller: FrameType | None = frame
        while caller is not None and not caller.f_code.co_filename.startswith(f"{LIBRARY}/"):
            caller = caller.f_back
        # A file that was found is not searched again: the search of all variables takes the longest.
        if caller is None or (file := caller.f_code.co_filename.removeprefix(f"{LIBRARY}/")) in found:
            return
        values = [*frame.f_locals.values(), *([result] if event == "return" else [])]
        if any(holds(value, text, depth) for value in values):
            found.add(file)

    # Python 3.12 and later do not call comprehensions; their variables exist only between their lines.
    previous_trace = sys.gettrace()
    sys.settrace(trace)
    try:
        build()
    finally:
        sys.settrace(previous_trace)
    return found


def file_of(model: type) -> str:
    """Return the file that declares a model, relative to `trainstack/`."""
    return Path(inspect.getfile(model)).relative_to(LIBRARY).as_posix()


READING = {"settings/loading/merge.py", "settings/loading/source.py"}


def test_the_stops_of_a_nominal_quota(project: Path) -> None:
    """They lead from the file of an environment to the ClusterQueue: five files."""
    files = stops(lambda: declared(project).queues.manifests, "76543", depth=1) | {file_of(ResourceQuota)}
    assert files == READING | {"settings/values/quantities.py", "settings/sections/queues.py", "platform/queues.py"}


def test_the_stops_of_a_runs_resources(project: Path) -> None:
    """They lead from the file of an environment to the container: six files."""
    files = stops(lambda: declared(project).runs, "54321m", depth=2) | {file_of(Workload)}
    assert files == READING | {
        "settings/values/quantities.py",
        "settings/sections/workloads.py",
        "runs/pods.py",
        "runs/manifests/pod_template.py",
    }


def test_the_stops_of_a_sweeps_parameter(project: Path) -> None:
    """They lead from space.yaml and hyperparams.yml to the arguments, identity and record of a trial: seven files."""

    def manifests() -> list[object]:
        return [manifest for group in declared(project).launches for manifest in group.manifests]

    files = stops(manifests, "0.0123457", depth=1) | {file_of(ParameterSet)}
    assert files == READING | {
        "settings/search_space/space.py",
        "settings/loading/templates.py",
        "runs/manifests/trial_names.py",
        "runs/pods.py",
        "runs/manifests/pod_template.py",
    }

"""Settings render upstream's own examples as the API server stores them: docs/upstream.md."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from tests.cluster.people import Person
from tests.cluster.project import ROOT
from trainstack.objects.labels import LAUNCH, LEDGER, MANAGED_BY, RUN, SKIP_AWAIT, STACK, WORKLOAD, Manifest
from trainstack.review.checkout_manifests import checkout_manifests
from trainstack.toolchain import go_toolchain
from trainstack.toolchain.build import Builder
from trainstack.toolchain.groups import GROUPS_BY_NAME

pytestmark = pytest.mark.cluster

NAMESPACE = "upstream"
"""The namespace of examples that name none."""
SETTINGS = ROOT / "tests" / "upstream"
PAGE = ROOT / "docs" / "upstream.md"
OURS = frozenset({LAUNCH, MANAGED_BY, RUN, SKIP_AWAIT, STACK, WORKLOAD})
"""The labels and annotations that our objects and their pods have in addition to the original's."""
SERVER_METADATA = ("creationTimestamp", "finalizers", "generation", "managedFields", "resourceVersion", "uid")
"""The metadata that the API server and controllers set for each new object."""
ROW = re.compile(r"^\| `(?P<file>[^`]+)` \|(?P<rest>.*)\|$", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """A folder of examples in a pinned Go module. Our settings are in `tests/upstream/<name>/`, by the same paths."""

    name: str
    module: str
    folder: str

    def originals(self) -> Path:
        """Return the folder in Go's module cache, which `go mod download` has verified against go.sum."""
        builder = Builder(go_toolchain.ensure(Console(stderr=True)))
        return builder.module_folder(GROUPS_BY_NAME["cluster"], self.module) / self.folder


SOURCES = (
    Source("training-operator", "github.com/kubeflow/training-operator", "examples/pytorch"),
    Source("kueue", "sigs.k8s.io/kueue", "cmd/kueueviz/examples"),
    Source("jobset", "sigs.k8s.io/jobset", "config/samples"),
)
EXPRESSIBLE = [
    pytest.param(source, file.relative_to(SETTINGS / source.name).as_posix(), id=f"{source.name}/{file.stem}")
    for source in SOURCES
    for file in sorted((SETTINGS / source.name).rglob("*.yaml"))
]


@pytest.fixture(scope="module")
def namespace(owner: Person) -> Iterator[None]:
    """Create the namespace of the examples that name none."""
    owner.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    yield
    done = owner.kubectl("delete", "namespace", NAMESPACE)
    assert done.code == 0, done.text


@pytest.mark.parametrize(("source", "file"), EXPRESSIBLE)
@pytest.mark.usefixtures("namespace")
def test_an_example_round_trips(owner: Person, tmp_path: Path, source: Source, file: str) -> None:
    """Whole objects are compared, as the API server completes them.

    Only our labels and annotations are removed.
    """
    left_out = inexpressible_objects(source, file)
    originals = {key: body for key, body in by_key(documents(source.originals() / file)).items() if key not in left_out}
    rendered = by_key(render(SETTINGS / source.name / file, tmp_path))
    assert rendered.keys() == originals.keys()
    theirs, ours = normalized(owner, originals), normalized(owner, rendered)
    assert not marks_of(theirs)
    # As text, so that a failure shows the lines that differ.
    assert dump(ours) == dump(theirs)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_the_page_lists_every_example(source: Source) -> None:
    """The page lists each file of the pinned release, with its settings if there are any.

    The objects that it lists as refused are in the file.
    """
    folder = source.originals()
    files = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*.y*ml")}
    settings = {
        file.relative_to(SETTINGS / source.name).as_posix() for file in (SETTINGS / source.name).rglob("*.yaml")
    }
    expressed = {file: rest for file, rest in rows(source) if rest.lstrip().startswith("[")}
    assert expressed == {file: f" [settings](../tests/upstream/{source.name}/{file}) " for file in settings}
    without = {file for file, rest in rows(source) if file not in expressed}
    assert files.keys() == settings | without
    for file in without | settings:
        assert inexpressible_objects(source, file) <= by_key(documents(files[file])).keys()
        assert file in settings or inexpressible_objects(source, file) == by_key(documents(files[file])).keys()


def rows(source: Source) -> Iterator[tuple[str, str]]:
    """Yield the file and the further columns of each row on a source; the file is relative to the source's folder."""
    for row in ROW.finditer(PAGE.read_text(encoding="utf-8")):
        if row["file"].startswith(f"{source.folder}/"):
            yield row["file"].removeprefix(f"{source.folder}/"), row["rest"]


def inexpressible_objects(source: Source, file: str) -> set[str]:
    """Return the objects of a file that the page lists as impossible to express, as `kind name`."""
    return {name for row, rest in rows(source) if row == file for name in re.findall(r"`([A-Z]\w+ \S+)`", rest)}


def documents(file: Path) -> list[Manifest]:
    """Return the objects of a YAML stream."""
    return [body for body in yaml.safe_load_all(file.read_text(encoding="utf-8")) if body]


def by_key(bodies: list[Manifest]) -> dict[str, Manifest]:
    """Return objects by `kind name`, or by the prefix of a generated name."""
    found = {
        f"{body['kind']} {body['metadata'].get('generateName') or body['metadata']['name']}": body for body in bodies
    }
    assert len(found) == len(bodies)
    return found


def render(settings: Path, to: Path) -> list[Manifest]:
    """Return the objects of an environment with these settings alone, without the ledgers of its runs."""
    shutil.copy(settings, to / "Pulumi.upstream.yaml")
    objects = checkout_manifests(to, "upstream", commit="", with_releases=False)
    return [body for body in objects if LEDGER not in body["metadata"]["labels"]]


def dump(bodies: dict[str, Manifest]) -> str:
    """Return the objects as text, without OURS."""
    return yaml.safe_dump({key: without_marks(body) for key, body in bodies.items()})


def normalized(owner: Person, bodies: dict[str, Manifest]) -> dict[str, Manifest]:
    """Return the objects as the server completes them, without fields that each creation changes."""
    answers = responses(owner, "create", "--dry-run=server", bodies=list(bodies.values()))
    return {key: quantities_as_texts(without_server_values(body)) for key, body in by_key(answers).items()}


def quantities_as_texts(part: Any) -> Any:
    """Return the part with requests and limits as texts: the API server keeps a number of a CRD's field."""
    if isinstance(part, list):
        return [quantities_as_texts(item) for item in part]
    if not isinstance(part, dict):
        return part
    return {
        key: {name: str(amount) for name, amount in value.items()}
        if key in ("requests", "limits")
        else quantities_as_texts(value)
        for key, value in part.items()
    }


def responses(owner: Person, *words: str, bodies: list[Manifest]) -> list[Manifest]:
    """Return the objects that a kubectl command prints for these objects."""
    (namespace,) = {body["metadata"].get("namespace", NAMESPACE) for body in bodies}
    done = owner.kubectl(*words, "-n", namespace, "-o", "yaml", body=as_list(bodies))
    assert done.code == 0, done.text
    printed = [body for body in yaml.safe_load_all(done.out) if body]
    return [item for body in printed for item in (body["items"] if body["kind"] == "List" else [body])]


def as_list(bodies: list[Manifest]) -> Manifest:
    """Return several objects as one List."""
    return {"apiVersion": "v1", "kind": "List", "items": bodies}


def without_server_values(body: Manifest) -> Manifest:
    """Return an object without status and without values that each create changes: UIDs, times, generated names."""
    metadata = body["metadata"]
    text = json.dumps({key: part for key, part in body.items() if key != "status"})
    text = text.replace(metadata["uid"], "<uid>")
    if "generateName" in metadata:
        text = text.replace(metadata["name"], "<name>")
    result: Manifest = json.loads(text)
    result["metadata"] = {key: part for key, part in result["metadata"].items() if key not in SERVER_METADATA}
    return result


def without_marks(part: Any) -> Any:
    """Return the part without OURS, and without labels, annotations or metadata of pods that have only these."""
    if isinstance(part, list):
        return [without_marks(item) for item in part]
    if not isinstance(part, dict):
        return part
    result = {}
    for key, value in part.items():
        if key in ("labels", "annotations") and OURS & value.keys():
            if kept := {name: item for name, item in value.items() if name not in OURS}:
                result[key] = kept
        # An empty `spec` is the same as none: a Cohort may have no settings.
        elif (rest := without_marks(value)) != {}:
            result[key] = rest
    return result


def marks_of(bodies: dict[str, Manifest]) -> set[str]:
    """Return the labels and annotations of OURS in these objects."""
    text = json.dumps(bodies)
    return {mark for mark in OURS if f'"{mark}"' in text}

"""The reader of Kubernetes' YAML reads the files that people have."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.corpus_files import CORPUS, WORKLOAD_KINDS, corpus_files, corpus_objects, read_corpus_file

_POD = (0, "spec", "template", "spec")
_CONTAINER = (*_POD, "containers", 0)
_FEATURES: dict[str, Callable[[str], bool]] = {
    "an octal mode": lambda text: "defaultMode: 0755" in text,
    "yes as a boolean": lambda text: ": yes\n" in text,
    "an anchor": lambda text: "&labels" in text,
    "a merge key": lambda text: "<<: *" in text,
    "a heredoc": lambda text: "<<'JSON'" in text,
    "an escaped dollar": lambda text: "$$" in text,
    "a document without content": lambda text: "---\n# Source: trainer-chart/templates/disabled.yaml\n---" in text,
}


@pytest.mark.parametrize("file", corpus_files())
def test_a_file_has_objects_and_no_findings(file: str) -> None:
    for manifest in read_corpus_file(file):
        assert isinstance(manifest["apiVersion"], str)
        assert isinstance(manifest["kind"], str)


def test_names_of_objects_are_unique() -> None:
    names = [name for name, _ in corpus_objects()]
    assert len(names) == len(set(names))


def test_the_corpus_has_files_of_all_groups() -> None:
    groups = [file.partition("/")[0] for file in corpus_files()]
    assert groups.count("group") == 12
    assert groups.count("platform") >= 13
    with_workloads = [file for file in corpus_files() if _kinds(file) & WORKLOAD_KINDS]
    assert len([file for file in with_workloads if not file.startswith("group/")]) >= 32


@pytest.mark.parametrize("feature", _FEATURES)
def test_the_corpus_has_the_odd_forms_of_yaml(feature: str) -> None:
    assert any(_FEATURES[feature]((CORPUS / file).read_text(encoding="utf-8")) for file in corpus_files())


@pytest.mark.parametrize(
    ("file", "path", "value"),
    [
        ("national-service/mig-benchmark.yaml", (0, "spec", "ttlSecondsAfterFinished"), 1800),
        ("national-service/interactive.yaml", (*_CONTAINER, "tty"), True),
        ("nautilus/tile-sweep.yaml", (*_POD, "volumes", 1, "configMap", "defaultMode"), 0o755),
        ("nautilus/gpu-product-affinity.yaml", (0, "spec", "template", "metadata", "name"), "kelp-acoustics-lr3"),
        ("university/merge-keys.yaml", (*_CONTAINER, "name"), "train"),
        ("university/merge-keys.yaml", (0, "spec", "template", "metadata", "labels", "size"), "7b"),
        ("university/locked-down.yaml", (*_CONTAINER, "resources", "limits", "memory"), 10**9),
        ("university/conda-hostpath.yaml", (0, "spec", "selector"), None),
        ("tutorials/hello.yaml", (*_CONTAINER, "command", 1), "café ✓"),
    ],
)
def test_values(file: str, path: Sequence[str | int], value: object) -> None:
    read: Any = read_corpus_file(file)
    for key in path:
        read = read[key]
    assert read == value


def _kinds(file: str) -> set[str]:
    return {manifest["kind"] for manifest in read_corpus_file(file)}

"""Objects are read from every form in which kubectl, kustomize and Helm print them."""

import pytest

from tests.unit.onboarding.convert.make import CLAIM, JOB, read
from trainstack.errors import TrainstackError


def test_each_document_keeps_its_text_and_its_place() -> None:
    """The comments before an object are part of its document; empty documents are ignored."""
    job, claim = read(f"---\n# Only a comment.\n---\n{JOB}---\n{CLAIM}...\n")
    assert (str(job.where), str(claim.where)) == ("1.yaml:5", f"1.yaml:{5 + JOB.count(chr(10))}")
    assert (job.text, claim.text) == (JOB, CLAIM)
    assert (job.identity, claim.identity) == ("Job vision/train", "PersistentVolumeClaim vision/data")


def test_lists_of_kubectl_are_their_objects() -> None:
    """The API server sends the items of a typed list without their kinds."""
    first, second, third = read(
        """\
        apiVersion: v1
        kind: List
        items:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
          - {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}]}
        """,
        '{"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"metadata": {"name": "c"}, "data": {"x": "1"}}]}',
    )
    assert [(source.kind, source.name, source.text) for source in (first, second, third)] == [
        ("ConfigMap", "a", ""),
        ("ConfigMap", "b", ""),
        ("ConfigMap", "c", ""),
    ]


def test_nulls_are_missing_values() -> None:
    """`kubectl create --dry-run=client` prints `creationTimestamp: null`, which is no field of a live object."""
    (source,) = read("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, creationTimestamp: null}\n")
    assert source.body == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert (source.dropped, source.is_live) == ((), False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\n", "1.yaml:1: is not a Kubernetes object: it has no apiVersion and no kind; convert files of objects"),
        ("- a\n", "1.yaml:1: is not a Kubernetes object; convert files of objects"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {}\n", "1.yaml:1: has no metadata.name; add it"),
        ("apiVersion: v1\n---\n{a: b\n", "1.yaml:4: invalid YAML"),
        (
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n",
            "1.yaml:1: is a file of kustomize; build it first: kubectl kustomize FOLDER | trainstack convert -",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}-x\n",
            "1.yaml:1: is a template of Helm; render the chart first: helm template NAME CHART | trainstack convert -",
        ),
    ],
)
def test_what_is_no_object_is_an_error_with_its_place(text: str, message: str) -> None:
    """Nothing is skipped silently."""
    with pytest.raises(TrainstackError) as error:
        read(text)
    assert message in str(error.value)

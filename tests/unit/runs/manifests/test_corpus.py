"""Every field of the manifests that people have reaches the launch, with the additions of decision 0032 only."""

import json
from pathlib import Path

import pytest

from tests.corpus_files import CORPUS, Manifest, corpus_workloads, read_corpus_file
from tests.rendered_manifests import QUEUE, QUEUE_LABEL, differences, render
from trainstack.preflight.file_checks import examine
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import load
from trainstack.stack_objects.stack_objects import StackObjects

WORKLOADS = corpus_workloads()
REFUSED = {
    "group/12-nightly.yaml CronJob tide-nightly": "the paths of the pods of kind CronJob are not known",
    "nautilus/bucket-sync.yaml CronJob bucket-sync": "the paths of the pods of kind CronJob are not known",
    "kubeflow/old-mpi.yaml MPIJob horovod-meadow": "set apiVersion to kubeflow.org/v2beta1",
    "tutorials/flux-minicluster.yaml MiniCluster lammps-tutorial": "the paths of the pods of kind MiniCluster",
    "tutorials/leader-workers.yaml LeaderWorkerSet bramble": "Kueue makes several Workloads of one object",
}
"""The manifests that are no run, with the reason."""
TEMPLATES = {
    "JAXJob": ["spec.jaxReplicaSpecs.Worker.template"],
    "TFJob": [f"spec.tfReplicaSpecs.{role}.template" for role in ("Chief", "PS", "Worker", "Evaluator")],
    "XGBoostJob": [f"spec.xgbReplicaSpecs.{role}.template" for role in ("Master", "Worker")],
    "AppWrapper cedar-8b": [
        f"spec.components[0].template.spec.pytorchReplicaSpecs.{role}.template" for role in ("Master", "Worker")
    ],
    "AppWrapper survey-bundle": ["spec.components[2].template", "spec.components[3].template.spec.template"],
    "LeaderWorkerSet": [f"spec.leaderWorkerTemplate.{role}Template" for role in ("leader", "worker")],
}
"""The paths of the pod templates of kinds without a module, by kind, or by kind and name."""
FRAMEWORKS = {
    "AppWrapper": "workload.codeflare.dev/appwrapper",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/leaderworkerset",
}


def settings_of(name: str, manifest: Manifest) -> Manifest:
    """Return the settings that a run of this manifest needs beside it: the paths of pods of kinds without a module."""
    kind = manifest["kind"]
    templates = TEMPLATES.get(kind) or TEMPLATES.get(name.partition(" ")[2])
    if templates is None:
        return {}
    pods = [{"name": f"pods-{index}", "template": template} for index, template in enumerate(templates)]
    return {"object": {"framework": FRAMEWORKS.get(kind, f"kubeflow.org/{kind.lower()}"), "pods": pods}}


def text_of(name: str, manifest: Manifest) -> str:
    """Return the file of a manifest: as it is if it has only this object, otherwise the object as JSON."""
    file = name.partition(" ")[0]
    return (
        (CORPUS / file).read_text(encoding="utf-8") if read_corpus_file(file) == (manifest,) else json.dumps(manifest)
    )


@pytest.mark.parametrize("queue", [None, QUEUE])
@pytest.mark.parametrize("name", sorted(WORKLOADS.keys() - REFUSED.keys()))
def test_no_field_is_lost(tmp_path: Path, name: str, queue: str | None) -> None:
    manifest = WORKLOADS[name]
    queued = {"queue": queue} if queue else {}
    rendered = render(tmp_path, text_of(name, manifest), **settings_of(name, manifest), **queued)
    is_queued = bool(queue) or QUEUE_LABEL in (manifest["metadata"].get("labels") or {})
    assert differences(manifest, rendered, queued=is_queued) == []


@pytest.mark.parametrize("name", REFUSED)
def test_a_manifest_that_is_no_run_is_refused_with_the_reason(tmp_path: Path, name: str) -> None:
    manifest = WORKLOADS[name]
    with pytest.raises(SettingsError, match=REFUSED[name]):
        render(tmp_path, text_of(name, manifest), **settings_of(name, manifest))


@pytest.mark.parametrize("name", sorted(WORKLOADS.keys() - REFUSED.keys()))
def test_check_finds_no_fault_in_pods(tmp_path: Path, name: str) -> None:
    """The API server accepts them, as `tests/dryrun` shows."""
    manifest = WORKLOADS[name]
    render(tmp_path, text_of(name, manifest), **settings_of(name, manifest))
    found = examine(StackObjects(load(tmp_path, "test")), tmp_path).findings
    assert [finding.message for finding in found if finding.id.startswith("manifest-")] == []

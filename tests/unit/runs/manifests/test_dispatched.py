"""Launches that MultiKueue manages, and the objects that their clusters need."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.make import make_distributed, make_run, make_settings, make_space, make_sweeps
from tests.unit.preflight.environment_cases import check_of, dispatching
from tests.unit.runs.launches import make_launch
from trainstack.live.client import PermanentError
from trainstack.live.worker_clusters import settings_of_worker, worker_context
from trainstack.objects.labels import SETS, TRIALS
from trainstack.runs.ledgers import Ledger
from trainstack.runs.manifests.build import dispatched_launch, is_dispatched, manifest
from trainstack.runs.manifests.data_loader import temporary_loader
from trainstack.runs.manifests.sweep_pod import SWEEP_VOLUME
from trainstack.runs.parameter_file import (
    MAX_ANNOTATION_BYTES,
    MAX_CONFIG_MAP_BYTES,
    TooManySetsError,
    check_annotation_size,
    check_size,
    mounted_parameter_file,
)
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.queues import MULTI_KUEUE_CONTROLLER
from trainstack.settings.sections.workloads import Workload, Workloads
from trainstack.stack_objects.inputs import read_inputs
from trainstack.stack_objects.stack_objects import StackObjects

SENT = dispatching(check_of("west"), queue={})
ROOT = Path(__file__).parents[4]


def declared(settings: Settings) -> StackObjects:
    """Return an environment without operators, whose releases the tests do not need."""
    settings = settings.model_copy(update={"operators": Operators()})
    return StackObjects(settings, read_inputs(settings, ROOT, commit=""))


@pytest.mark.parametrize(
    ("run", "path"),
    [(make_run(), ("spec", "managedBy")), (make_distributed(backoff_limit=2), ("spec", "runPolicy", "managedBy"))],
)
def test_a_dispatched_launch_differs_only_by_its_manager(run: Workload, path: tuple[str, ...]) -> None:
    """The other fields are kept, and the original object is not changed."""
    launch = manifest(run, "test", make_launch())
    result = dispatched_launch(run, launch)
    assert (is_dispatched(launch), is_dispatched(result)) == (False, True)
    section = result
    for key in path[:-1]:
        section = section[key]
    assert section.pop(path[-1]) == MULTI_KUEUE_CONTROLLER
    assert result == launch


def test_the_name_of_a_launch_does_not_depend_on_its_manager() -> None:
    """A check that is added to the run's queue later does not cause another launch."""
    names = []
    for settings in (make_settings(make_run()), SENT):
        (run,) = declared(settings).runs
        names.append(run.launch.name)
        assert is_dispatched(run.manifest) == settings.queues.is_dispatched("research", "research")
    assert names[0] == names[1]


def swept(**changes: object) -> Ledger:
    """Return the first launch of a sweep whose queue dispatches."""
    settings = SENT.model_copy(update={"sweeps": make_sweeps(**changes), "workloads": Workloads()})
    return declared(settings).launches[1].launches[0]


def volume_of(ledger: Ledger) -> dict[str, Any]:
    """Return the volume with the sweep's files, and the annotations of the pods."""
    template = ledger.launch["spec"]["template"]
    (volume,) = [item for item in template["spec"]["volumes"] if item["name"] == SWEEP_VOLUME]
    return {"volume": volume, "annotations": template["metadata"].get("annotations", {})}


def test_the_pods_of_a_dispatched_batch_have_their_trials_in_annotations() -> None:
    """MultiKueue does not copy ConfigMaps; the name of the local one can be read from the launch."""
    local = declared(make_settings(sweeps=make_sweeps(form="indexed", parallelism=2))).launches[1]
    (file,) = local.files
    ledger = swept(form="indexed", parallelism=2)
    found = volume_of(ledger)
    assert found["annotations"] == {TRIALS: file["data"]["trials.json"]}
    field = {"fieldPath": f"metadata.annotations['{TRIALS}']"}
    sources = [
        {"downwardAPI": {"items": [{"path": "trials.json", "fieldRef": field}]}},
        {"configMap": {"name": file["metadata"]["name"], "optional": True}},
    ]
    assert found["volume"] == {"name": SWEEP_VOLUME, "projected": {"sources": sources}}
    assert mounted_parameter_file(ledger.objects) == file["metadata"]["name"]
    assert (ledger.launch_name, is_dispatched(ledger.launch)) == (local.launches[0].launch_name, True)


@pytest.mark.parametrize("form", ["jobs", "indexed"])
def test_the_file_that_a_program_reads_is_in_an_annotation_too(form: str) -> None:
    """The sweep must have a path for it."""
    space = make_space(file="/etc/sets.yml")
    parallelism = 2 if form == "indexed" else None
    ledger = swept(form=form, parallelism=parallelism, space=space, sets_text="sets: []")
    expected = {SETS, TRIALS} if form == "indexed" else {SETS}
    found = volume_of(ledger)
    assert {*found["annotations"]} == expected
    assert found["annotations"][SETS] == "sets: []"
    mounts = ledger.launch["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    assert {
        "name": SWEEP_VOLUME,
        "mountPath": "/etc/sets.yml",
        "subPath": "hyperparams.yml",
        "readOnly": True,
    } in mounts


def test_trials_that_read_no_file_have_no_such_annotation() -> None:
    """Their arguments have the parameters."""
    ledger = swept()
    template = ledger.launch["spec"]["template"]
    assert is_dispatched(ledger.launch)
    assert not {SETS, TRIALS} & {*template["metadata"].get("annotations", {})}
    assert "projected" not in str(template)


def test_one_limit_is_reported_for_a_sweep_that_is_too_large() -> None:
    """Another rule reports the limit of the ConfigMap; below it, the limit of the annotations is reported."""
    space = make_space(file="/etc/sets.yml")
    (larger,) = make_sweeps(space=space, sets_text="x" * (MAX_CONFIG_MAP_BYTES + 1)).sweeps
    with pytest.raises(TooManySetsError, match="but a ConfigMap holds"):
        check_size(larger)
    check_annotation_size(larger)
    (large,) = make_sweeps(space=space, sets_text="x" * (MAX_ANNOTATION_BYTES + 1)).sweeps
    with pytest.raises(TooManySetsError, match="annotations of a dispatched pod"):
        check_annotation_size(large)


def test_a_receiving_namespace_gets_the_wrapper() -> None:
    """Its environment declares no run."""
    settings = make_settings(workloads=Workloads(receives=("research",)))
    (group,) = declared(settings).launches
    (wrapper,) = group.files
    assert wrapper["metadata"]["namespace"] == "research"
    assert "".join(wrapper["data"].values()).strip()


def test_loaders_use_the_queue_only_in_the_worker_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the manager cluster MultiKueue would dispatch them."""
    file = tmp_path / "kubeconfig"
    entries = {"contexts": [{"name": "west", "context": {}}], "current-context": "west"}
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **entries}))
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert temporary_loader(SENT, "research", "training", "/mnt").queue is None
    worker = settings_of_worker(SENT, "west")
    assert worker.cluster.context == "west"
    assert temporary_loader(worker, "research", "training", "/mnt").queue == "research"


def test_a_cluster_without_a_context_is_named_with_the_remedies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remedies are the user's kubeconfig, and the setting for another name."""
    file = tmp_path / "kubeconfig"
    file.write_text("apiVersion: v1\nkind: Config\n")
    monkeypatch.setenv("KUBECONFIG", str(file))
    with pytest.raises(PermanentError, match=r"worker cluster west has .* has no context 'west'") as error:
        worker_context(SENT, "west")
    assert "queues.multiKueueClusters[west].context" in str(error.value)

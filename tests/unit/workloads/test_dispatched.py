"""Launches that MultiKueue manages, and what their clusters have."""

from pathlib import Path

import pytest
import yaml

from tests.unit.checks.environment_cases import check_of, dispatching
from tests.unit.make import make_distributed, make_run, make_settings
from tests.unit.workloads.launches import make_launch
from trainstack.declared.declared import Declared
from trainstack.declared.inputs import read_inputs
from trainstack.live.client import PermanentError
from trainstack.live.workers import settings_of_worker, worker_context
from trainstack.runs.manifests.build import dispatched, is_dispatched, manifest
from trainstack.runs.manifests.data_loader import temporary_loader
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.queues import MULTI_KUEUE
from trainstack.settings.sections.workloads import Workload, Workloads

SENT = dispatching(check_of("west"), queue={})
ROOT = Path(__file__).parents[3]


def declared(settings: Settings) -> Declared:
    """An environment without operators, whose releases are not needed here."""
    settings = settings.model_copy(update={"operators": Operators()})
    return Declared(settings, read_inputs(settings, ROOT, commit=""))


@pytest.mark.parametrize(
    ("run", "path"),
    [(make_run(), ("spec", "managedBy")), (make_distributed(backoff_limit=2), ("spec", "runPolicy", "managedBy"))],
)
def test_a_dispatched_launch_differs_by_its_manager_alone(run: Workload, path: tuple[str, ...]) -> None:
    """The other fields stay, and so does the object that it was made of."""
    launch = manifest(run, "test", make_launch())
    sent = dispatched(run, launch)
    assert (is_dispatched(launch), is_dispatched(sent)) == (False, True)
    section = sent
    for key in path[:-1]:
        section = section[key]
    assert section.pop(path[-1]) == MULTI_KUEUE
    assert sent == launch


def test_a_launchs_name_does_not_depend_on_who_manages_it() -> None:
    """A check that is added to the queue of a run later does not make it another launch."""
    names = []
    for settings in (make_settings(make_run()), SENT):
        (run,) = declared(settings).runs
        names.append(run.launch.name)
        assert is_dispatched(run.manifest) == settings.queues.dispatches("research", "research")
    assert names[0] == names[1]


def test_a_receiving_namespace_gets_the_wrapper() -> None:
    """Its environment declares no run."""
    settings = make_settings(workloads=Workloads(receives=("research",)))
    (group,) = declared(settings).launches
    (wrapper,) = group.files
    assert wrapper["metadata"]["namespace"] == "research"
    assert "".join(wrapper["data"].values()).strip()


def test_loaders_keep_out_of_the_queue_except_in_the_worker_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this cluster, MultiKueue would start them elsewhere."""
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
    """The user's kubeconfig, and the setting for another name."""
    file = tmp_path / "kubeconfig"
    file.write_text("apiVersion: v1\nkind: Config\n")
    monkeypatch.setenv("KUBECONFIG", str(file))
    with pytest.raises(PermanentError, match=r"dispatched to cluster west.* has no context 'west'") as caught:
        worker_context(SENT, "west")
    assert "queues.multiKueueClusters[west].context" in str(caught.value)

"""Values of `--set` that override an environment's files."""

from pathlib import Path

import pytest

from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import load, load_with_places
from trainstack.settings.model import Settings

ROOT = Path(__file__).resolve().parents[4]


def changed(*changes: str) -> Settings:
    """Return the dev environment with these changes."""
    return load_with_places(ROOT, "dev", changes=changes).settings


def faults(*changes: str) -> list[str]:
    """Return the faults of the dev environment with these changes."""
    with pytest.raises(SettingsError) as error:
        changed(*changes)
    return [str(finding) for finding in error.value.findings]


def test_a_change_overrides_a_value_of_the_files() -> None:
    """The path is that of errors, with names or indexes, also for values of a workload.yaml. No file changes."""
    quota = "queues.clusterQueues[research].resourceGroups[0].flavors[cpu].resources[cpu].nominalQuota"
    settings = changed(f"{quota}=6", "workloads.runs[0].roles.Worker.replicas=5", "queues.priorityClasses[low].value=7")
    group = settings.queues.cluster_queues[0].resource_groups[0]
    assert [quota.nominal_quota for quota in group.flavors[0].resources] == ["6", "8Gi"]
    assert settings.workloads.runs[0].roles["Worker"].replicas == 5
    assert [item.value for item in settings.queues.priority_classes] == [7, 1000, 10000]
    assert load(ROOT, "dev") == changed()


def test_maps_and_lists_of_named_elements_merge_and_null_deletes() -> None:
    """The merge rule of files applies; missing values are added."""
    run = changed(
        "workloads.runs[digits].resources={requests: {memory: 1Gi}}",
        "workloads.runs[digits].priority=null",
        'workloads.runs[digits].nodeSelector["example.org/kind"]=a100',
        "workloads.runs[digits].expectedDurationSeconds=600",
    ).workloads.runs[0]
    assert run.resources.requests == {"cpu": "250m", "memory": "1Gi"}
    assert (run.priority, run.expected_duration_seconds) == (None, 600)
    assert run.node_selector == {"example.org/kind": "a100"}
    teams = changed("queues.localQueues=[{name: second, namespace: research, clusterQueue: research}]").queues
    assert [queue.name for queue in teams.local_queues] == ["research", "second"]


def test_later_changes_see_earlier_ones() -> None:
    """They are applied in order."""
    queues = changed("queues.flavors=[{name: big}]", "queues.flavors[big].nodeLabels={a: b}").queues
    assert queues.flavors[1].node_labels == {"a": "b"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("queues", "--set queues: is not a path with a value; write PATH=VALUE"),
        ("a b=1", "is not a path with a value"),
        ("queues.clusterQueues[reserch].cohort=x", "clusterQueues[reserch]: does not exist; did you mean research?"),
        ("queues.clusterQueues[7].cohort=x", "queues.clusterQueues[7]: does not exist; valid names: research"),
        (
            "queues.clusterQueues.research.cohort=x",
            "queues.clusterQueues: is not a map, so it has no research; did you mean queues.clusterQueues[research]?",
        ),
        ("queues.clusterQueues[research].cohrt=x", "unknown key cohrt; did you mean cohort?"),
        ("workloads.runs[digits].seed=many", "must be an integer"),
        ("workloads.runs[digits].seed={", "invalid YAML"),
    ],
)
def test_the_fault_of_an_invalid_change_has_the_change(change: str, message: str) -> None:
    """It also has the nearest valid name."""
    (fault,) = faults(change)
    assert fault.startswith(f"--set {change}: ")
    assert message in fault


def test_all_faults_of_several_changes_are_reported_together() -> None:
    assert len(faults("nothing", "queues.clusterQueues[x].cohort=y")) == 2

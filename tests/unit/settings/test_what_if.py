"""Values that are tried beside an environment's files."""

import re
from pathlib import Path

import pytest

from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import load, load_with_places
from trainstack.settings.model import Settings

ROOT = Path(__file__).resolve().parents[3]


def tried(*changes: str) -> Settings:
    """The dev environment with these."""
    return load_with_places(ROOT, "dev", changes=changes).settings


def faults(*changes: str) -> list[str]:
    """Why it does not load with these."""
    with pytest.raises(SettingsError) as caught:
        tried(*changes)
    return [str(finding) for finding in caught.value.findings]


def test_a_value_is_with_declared_the_files() -> None:
    """By the path that errors name, by name or by index; also what a workload.yaml says. The files stay as they are."""
    quota = "queues.clusterQueues[research].resourceGroups[0].flavors[cpu].resources[cpu].nominalQuota"
    settings = tried(f"{quota}=6", "workloads.runs[0].roles.Worker.replicas=5", "queues.priorityClasses[low].value=7")
    group = settings.queues.cluster_queues[0].resource_groups[0]
    assert [each.nominal_quota for each in group.flavors[0].resources] == ["6", "8Gi"]
    assert settings.workloads.runs[0].roles["Worker"].replicas == 5
    assert [each.value for each in settings.queues.priority_classes] == [7, 1000, 10000]
    assert load(ROOT, "dev") == tried()


def test_what_the_docs_try_can_be_tried() -> None:
    """Each `--set` of their examples, on the environment that it names."""
    text = (ROOT / "docs/forecast.md").read_text(encoding="utf-8")
    examples = re.findall(r"^trainstack forecast -s (\w+) --set '([^']+)'$", text, re.MULTILINE)
    assert len(examples) > 1
    for stack, change in examples:
        assert load_with_places(ROOT, stack, changes=(change,)).settings != load(ROOT, stack)


def test_a_map_merges_a_list_of_names_too_and_null_deletes() -> None:
    """The one merge rule; what is not there yet is added."""
    run = tried(
        "workloads.runs[digits].resources={requests: {memory: 1Gi}}",
        "workloads.runs[digits].priority=null",
        'workloads.runs[digits].nodeSelector["example.org/kind"]=a100',
        "workloads.runs[digits].expectedDurationSeconds=600",
    ).workloads.runs[0]
    assert run.resources.requests == {"cpu": "250m", "memory": "1Gi"}
    assert (run.priority, run.expected_duration_seconds) == (None, 600)
    assert run.node_selector == {"example.org/kind": "a100"}
    teams = tried("queues.localQueues=[{name: second, namespace: research, clusterQueue: research}]").queues
    assert [each.name for each in teams.local_queues] == ["research", "second"]


def test_later_changes_see_earlier_ones() -> None:
    """They are laid over each other in their order."""
    queues = tried("queues.flavors=[{name: big}]", "queues.flavors[big].nodeLabels={a: b}").queues
    assert queues.flavors[1].node_labels == {"a": "b"}


@pytest.mark.parametrize(
    ("change", "said"),
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
def test_what_cannot_be_tried_is_told_with_the_change(change: str, said: str) -> None:
    """And the nearest thing that can."""
    (fault,) = faults(change)
    assert fault.startswith(f"--set {change}: ")
    assert said in fault


def test_all_faults_are_told_at_once() -> None:
    """Of several changes."""
    assert len(faults("nothing", "queues.clusterQueues[x].cohort=y")) == 2

"""The entries of a new team."""

from pathlib import Path

import pytest

from tests.unit.make import make_group, make_queues, make_settings
from trainstack.errors import TrainstackError
from trainstack.onboarding.new_team import plan_new_team
from trainstack.onboarding.team_request import TeamRequest
from trainstack.onboarding.yaml_additions import add_section_entries
from trainstack.settings.loading.load import load
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import Environment, Namespace
from trainstack.settings.sections.queues import ClusterQueue, Cohort, ResourceFlavor

PLATFORM = """\
config:
  trainstack:environment: {layers: [platform], namespaces: [{name: research}]}
  trainstack:queues:
    flavors: [{name: gpu}]
    cohorts: [{name: local}]
    clusterQueues:
      - name: research
        cohort: local
        resourceGroups:
          - coveredResources: [cpu, memory, nvidia.com/gpu]
            flavors:
              - name: gpu
                resources:
                  - {name: cpu, nominalQuota: 2}
                  - {name: memory, nominalQuota: 8Gi}
                  - {name: nvidia.com/gpu, nominalQuota: 4}
"""

NAMES = "use at most 40 lower-case letters, digits and '-', with a letter or digit at both ends"
RESOURCES = "known are cpu, ephemeral-storage, memory, and devices with their vendor's domain, such as nvidia.com/gpu"


def make_platform(folder: Path, text: str = PLATFORM) -> Settings:
    """Return a platform that is loaded from its file."""
    (folder / "Pulumi.lab.yaml").write_text(text)
    return load(folder, "lab")


def faults(platform: Settings, **changes: object) -> list[str]:
    """Return the faults of a team that cannot be added."""
    with pytest.raises(TrainstackError) as error:
        plan_new_team(platform, TeamRequest(**{"name": "vision", "quota": {}, **changes}), "lab")  # type: ignore[arg-type]
    return str(error.value).splitlines()


def test_a_team_gets_a_namespace_two_queues_and_its_rights(tmp_path: Path) -> None:
    """By default it is in the only cohort, on the only flavor, and may borrow the cohort's quota."""
    platform = make_platform(tmp_path)
    planned = plan_new_team(platform, TeamRequest(name="vision", quota={"memory": "1024Mi"}), "trainstack")
    resources = [
        {"name": "cpu", "nominalQuota": 4},
        {"name": "memory", "nominalQuota": "1Gi"},
        {"name": "nvidia.com/gpu", "nominalQuota": 0},
    ]
    assert [(".".join(entry.path), entry.value) for entry in planned.entries] == [
        ("environment.namespaces", {"name": "vision"}),
        (
            "queues.clusterQueues",
            {
                "name": "vision",
                "cohort": "local",
                "namespaces": ["vision"],
                "resourceGroups": [
                    {
                        "coveredResources": ["cpu", "memory", "nvidia.com/gpu"],
                        "flavors": [{"name": "gpu", "resources": resources}],
                    }
                ],
            },
        ),
        ("queues.localQueues", {"name": "vision", "namespace": "vision", "clusterQueue": "vision"}),
        ("tenants.teams", {"name": "vision", "namespace": "vision", "serviceAccount": "vision"}),
    ]
    assert planned.choices == {
        "namespace": "vision",
        "quota": "cpu 4 (default), memory 1Gi, nvidia.com/gpu 0 (to be borrowed) on flavor gpu",
        "cohort": "local",
        "rights": "service account vision (default: no other subject was given)",
    }


def test_an_existing_team_is_kept(tmp_path: Path) -> None:
    """The same request, or one with fewer values, adds nothing. Faults report different values."""
    request = TeamRequest(name="vision", namespace="see", quota={"cpu": "8"}, groups=("ml",))
    planned = plan_new_team(make_platform(tmp_path), request, "trainstack")
    (tmp_path / "Pulumi.vision.yaml").write_text(planned.team_file)
    platform = make_platform(tmp_path, add_section_entries(PLATFORM, planned.entries))
    for again in (request, TeamRequest(name="vision", namespace="see", quota={})):
        assert plan_new_team(platform, again, "trainstack").entries == ()
        assert plan_new_team(platform, again, "trainstack").existing_entries == (
            "environment.namespaces[see]",
            "queues.clusterQueues[vision]",
            "queues.localQueues[vision]",
            "tenants.teams[vision]",
        )
    remedy = "edit it in Pulumi.lab.yaml, or choose another name"
    assert faults(platform, quota={"cpu": "9"}, users=("ann",)) == [
        f"team vision already exists with namespace see; {remedy}",
        f"team vision already exists with users none; {remedy}",
        f"cluster queue vision already exists with cpu 8; {remedy}",
    ]
    team = load(tmp_path, "vision")
    assert (team.environment.profile, team.environment.layers) == ("tenant", ("training",))
    assert team.environment.platform == "organization/trainstack/lab"
    assert [(run.namespace, run.queue) for run in team.workloads.runs] == [("see", "vision")]


def test_every_fault_has_its_remedy() -> None:
    """Faults of names, flavor, cohort and quantities are reported together."""
    assert faults(make_settings(), name="Vision", flavor="cpuu", cohort="locl", quota={"gpu": "1", "cpu": "8x"}) == [
        f"'Vision' is not a valid name for a team; {NAMES}",
        f"'Vision' is not a valid name for a namespace; {NAMES}",
        "test has no flavor cpuu; did you mean cpu?",
        "test has no cohort locl; did you mean local?",
        f"--quota gpu=1: unknown resource gpu; {RESOURCES}",
        '--quota cpu=8x: \'8x\' is not a quantity; write a Kubernetes quantity such as "500m", "2" or "1Gi"',
    ]


def test_ambiguous_values_are_requested() -> None:
    """There are several flavors or cohorts, no flavor, or the environment is not a platform."""
    several = make_queues(
        flavors=(ResourceFlavor(name="cpu"), ResourceFlavor(name="gpu")),
        cohorts=(Cohort(name="local"), Cohort(name="other")),
    )
    assert faults(make_settings(queues=several)) == [
        "test has 2 flavors for the quota; name one with --flavor: cpu, gpu",
        "test has 2 cohorts; name one with --cohort: local, other",
    ]
    none = make_queues(flavors=(), cohorts=(), cluster_queues=(), local_queues=())
    assert faults(make_settings(queues=none)) == ["test has 0 flavors for the quota; declare one under queues.flavors"]
    assert faults(make_settings(environment=Environment(layers=("training",)))) == [
        "test is not a platform: name the environment that declares the queues with -s"
    ]


def test_an_existing_queue_keeps_its_quota() -> None:
    """A team may be added to an existing queue; only missing entries are added."""
    queue = ClusterQueue(name="vision", resource_groups=(make_group(("cpu", {"cpu": "1", "memory": "1Gi"})),))
    platform = make_settings(
        queues=make_queues(cluster_queues=(queue,), local_queues=(), cohorts=()),
        environment=Environment(namespaces=(Namespace(name="vision"),)),
    )
    planned = plan_new_team(platform, TeamRequest(name="vision", quota={}), "research")
    assert [".".join(entry.path) for entry in planned.entries] == ["queues.localQueues", "tenants.teams"]
    assert planned.choices["quota"] == "cpu 1 on flavor cpu, memory 1Gi on flavor cpu"


@pytest.mark.parametrize(("state", "local"), [("embedded", "true"), ("pulumi", "false")])
def test_a_team_has_the_state_and_the_cluster_of_its_platform(tmp_path: Path, state: str, local: str) -> None:
    """A team reads the outputs of the platform's stack, which is in the same backend."""
    text = PLATFORM.replace("{layers", f"{{state: {state}, layers")
    platform = make_platform(tmp_path, f"{text}  trainstack:cluster: {{local: {local}}}\n")
    (tmp_path / "Pulumi.vision.yaml").write_text(
        plan_new_team(platform, TeamRequest(name="vision", quota={}), "trainstack").team_file
    )
    team = load(tmp_path, "vision")
    assert (team.environment.state, team.cluster.local) == (state, local == "true")

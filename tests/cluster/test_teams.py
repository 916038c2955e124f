"""A team beside the dev environment, that has rights in its own namespace and nowhere else."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.lab import await_end, true_conditions
from tests.cluster.project import Project, eventually

pytestmark = pytest.mark.cluster

PLATFORM, TEAM = "desk", "vision"
EXEC = ("create", "pods", "exec")


def platform_config() -> dict[str, object]:
    """A platform without teams: a flavor, and a class that is there already."""
    return {
        "trainstack:environment": {"layers": ["platform"], "existing": {"storageClasses": ["shared"]}},
        "trainstack:queues": {"flavors": [{"name": PLATFORM}], "priorityClasses": None},
    }


@pytest.fixture(scope="module")
def platform(dev: Project) -> Iterator[Project]:
    """A platform's stack to which `add-team` has added a team, up."""
    project = dev.other(PLATFORM, platform_config())
    done = project.trainstack("add-team", TEAM, "--quota", "cpu=1", "--quota", "memory=1Gi")
    assert done.code == 0, done.text
    try:
        done = project.up()
        assert done.code == 0, done.text
        yield project
    finally:
        project.take_down()
        done = project.kubectl("delete", "namespace", TEAM, "--timeout=60s", "--ignore-not-found")
        assert done.code == 0, done.text


@pytest.fixture(scope="module")
def team(platform: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The team's stack, with the kubeconfig of its service account alone."""
    kubeconfig = tmp_path_factory.mktemp("team") / "kubeconfig"
    _for_service_account(platform, kubeconfig)
    project = Project(platform.root, kubeconfig, TEAM)
    project._use_environment()
    try:
        yield project
    finally:
        project.take_down()


def _for_service_account(platform: Project, to: Path) -> None:
    done = platform.kubectl("create", "token", TEAM, "-n", TEAM, "--duration=1h")
    assert done.code == 0, done.text
    config = yaml.safe_load(platform.kubeconfig.read_text())
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": done.out.strip()}}]
    to.write_text(yaml.safe_dump(config))


def may(project: Project, verb: str, what: str, part: str = "", namespace: str = "") -> bool:
    """What the API server says of the kubeconfig's user, about a kind or a part of it."""
    words = [*([f"--subresource={part}"] if part else []), *(["-n", namespace] if namespace else [])]
    return project.kubectl("auth", "can-i", verb, what, *words).out.strip().startswith("yes")


def test_a_team_has_its_rights_and_no_others(team: Project) -> None:
    """Everything that is cluster-wide, or in another namespace, is forbidden; nobody may give rights away."""
    for verb, what, part in (("create", "jobs.batch", ""), ("patch", "pytorchjobs.kubeflow.org", ""), EXEC):
        assert may(team, verb, what, part, TEAM)
        assert not may(team, verb, what, part, "research")
    place = f"/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/{TEAM}/localqueues/{TEAM}/pendingworkloads"
    done = team.kubectl("get", "--raw", place)
    assert (done.code, json.loads(done.out)["items"]) == (0, []), done.text
    for what in ("namespaces", "storageclasses", "clusterqueues", "resourceflavors", "customresourcedefinitions"):
        assert not may(team, "list", what)
        assert not may(team, "get", what)
    for what in ("secrets", "roles", "rolebindings", "localqueues.kueue.x-k8s.io"):
        assert not may(team, "create", what, namespace=TEAM)
    assert not may(team, "create", "serviceaccounts", "token", namespace=TEAM)


def test_a_team_trains_with_its_own_rights_alone(team: Project, tmp_path: Path) -> None:
    """Its example goes through, a refresh is quiet, and the day's commands work: all with rights in one namespace."""
    done = team.trainstack("up", "--yes")
    assert done.code == 0, done.text
    await_end(team, "hello", "Complete", namespace=TEAM)
    workloads = team.get("workloads.kueue.x-k8s.io", "", TEAM)["items"]
    assert [(each["spec"]["queueName"], "Finished" in true_conditions(each)) for each in workloads] == [(TEAM, True)]
    assert team.changes("--refresh") == {}

    (run,) = json.loads(team.trainstack("status", "--json").out)
    assert (run["launch"]["phase"], run["last_line"][:10]) == ("succeeded", "hello from")
    done = team.trainstack("logs", "hello")
    assert done.code == 0, done.text
    assert "hello from" in done.out
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "file").write_text("brought")
    for words in (
        ("upload", str(folder), "training:data"),
        ("fetch", "training:data", "--to", str(tmp_path / "back")),
        ("ls", "training:data"),
    ):
        done = team.trainstack(*words)
        assert done.code == 0, done.text
    assert done.out.endswith("  file\n")
    assert (tmp_path / "back" / "file").read_text() == "brought"


def test_a_missing_right_is_told_before_anything_is_made(platform: Project, team: Project) -> None:
    """Who lacks what, where, and who gives it; no stack trace, and nothing is written."""
    rules = platform.get("role", f"tenant-{TEAM}", TEAM)["rules"]
    narrow = [rule for rule in rules if rule["apiGroups"] != ["kubeflow.org"]]
    before = _jobs(team)
    assert len(before) == 1
    file = team.root / f"Pulumi.{TEAM}.yaml"
    text = file.read_text()
    try:
        _set_rules(platform, narrow)
        eventually("the right is gone", lambda: not may(team, "create", "pytorchjobs.kubeflow.org", namespace=TEAM))
        # A kind that the team does not use may be out of its sight.
        assert team.changes("--refresh") == {}
        team.edit_stack(
            lambda config: config["trainstack:workloads"]["runs"][0].update(kind="PyTorchJob", roles={"Master": {}})
        )
        for done in (team.pulumi("preview"), team.up()):
            assert done.code != 0
            assert (
                f"system:serviceaccount:{TEAM}:{TEAM} may not create or patch pytorchjobs.kubeflow.org in namespace "
                f"{TEAM}; the platform's owner gives a team all rights that it needs"
            ) in done.text
            assert "Traceback" not in done.text
        assert _jobs(team) == before
    finally:
        file.write_text(text)
        _set_rules(platform, rules)
        eventually("the right is back", lambda: may(team, "create", "pytorchjobs.kubeflow.org", namespace=TEAM))


def test_a_platform_whose_state_is_elsewhere_is_left_out(team: Project) -> None:
    """Named, it is refused without a stack trace; not named, the team's stack goes through."""
    file = team.root / f"Pulumi.{TEAM}.yaml"
    text = file.read_text()
    elsewhere = "organization/trainstack/elsewhere"
    try:
        team.edit_stack(lambda config: config["trainstack:environment"].update(platform=elsewhere))
        done = team.pulumi("preview")
        assert done.code != 0
        assert elsewhere in done.text
        assert "Traceback" not in done.text
        team.edit_stack(lambda config: config["trainstack:environment"].pop("platform"))
        # The reference itself is let go of, and nothing else.
        assert set(team.changes("--refresh")) == {"discard"}
    finally:
        file.write_text(text)


def _jobs(team: Project) -> set[str]:
    return {each["metadata"]["name"] for each in team.select("jobs", f"trainstack.dev/stack={TEAM}", TEAM)}


def _set_rules(platform: Project, rules: list[dict[str, object]]) -> None:
    patch = json.dumps([{"op": "replace", "path": "/rules", "value": rules}])
    done = platform.kubectl("patch", "role", f"tenant-{TEAM}", "-n", TEAM, "--type=json", "--patch", patch)
    assert done.code == 0, done.text

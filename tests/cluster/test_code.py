"""Runs whose program is checked out from a git server, by https and by ssh; credentials are not exposed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster import forge
from tests.cluster.forge import Forge, KeyPair
from tests.cluster.lab import (
    MOUNT,
    NAMESPACE,
    assert_no_changes,
    await_end,
    await_pods,
    exec_in_pod,
    launch,
    launches,
    ledgers,
    managed_run,
    run_id,
    team_config,
    uids,
    unmanaged_run,
)
from tests.cluster.project import Project, eventually
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.images import ensure_images, git

pytestmark = pytest.mark.cluster

PLACE = "/mnist-training"
PROGRAM = f"""\
import os, pathlib, time
if os.environ.get("WORLD_SIZE", "1") != "1":
    while not pathlib.Path("{MOUNT}/go").exists():
        time.sleep(0.1)
pathlib.Path("beside.txt").write_text("programs write beside their code")
pathlib.Path(os.environ.get("TRAINSTACK_OUTPUT", "."), "model.txt").write_text("model of commit NUMBER")
print("trained by commit NUMBER", flush=True)
"""
"""It finishes at once; in a distributed run it waits for a file, so that a test can see all processes run."""
RUNS = ["python3", "main.py"]
PREFIX = "code-"
"""The prefix of the names of all Secrets of the test."""


def code(url: str, revision: str, secret: str | None) -> dict[str, Any]:
    """Return the fields of a workload whose program is checked out."""
    credentials = {} if secret is None else {"secret": f"{PREFIX}{secret}"}
    checkout = {"git": url, "revision": revision, "mountPath": PLACE, **credentials}
    return {"code": checkout, "workingDir": PLACE, "command": RUNS, "args": []}


@pytest.fixture(scope="module")
def server(lab: Project, cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    """Yield the git server, with the valid and invalid Secrets for access to it."""
    ensure_images([git(), forge.recipe()], cluster.registry, lambda _: None)
    try:
        found = forge.start(lab, tmp_path_factory.mktemp("forge"), PROGRAM, cluster.node_ip)
        forge.set_branch(lab, found.commits[1])
        key, hosts = found.client.private, found.known_hosts
        other_host = f"{forge.HOST} {KeyPair.make().public}\n"
        ssh, basic = "kubernetes.io/ssh-auth", "kubernetes.io/basic-auth"
        for name, kind, files in (
            ("ssh", ssh, {"ssh_privatekey": key, "known_hosts": hosts}),
            ("wrong-key", ssh, {"ssh_privatekey": KeyPair.make().private, "known_hosts": hosts}),
            ("wrong-host", ssh, {"ssh_privatekey": key, "known_hosts": other_host}),
            ("https", basic, {"username": forge.USER, "password": forge.PASSWORD, "ca_crt": found.authority}),
            ("wrong-password", basic, {"username": forge.USER, "password": "no", "ca_crt": found.authority}),
            ("authority", "Opaque", {"ca_crt": found.authority}),
        ):
            forge.create_secret(lab, NAMESPACE, PREFIX + name, kind, **files)
        yield found
    finally:
        forge.stop(lab)


def good_runs(server: Forge) -> list[dict[str, Any]]:
    """Return a run for each kind of access. The image has Python; the init container has git."""
    image: dict[str, Any] = {"image": {"build": "workloads/digits"}}
    middle = server.commits[1]
    roles = {"Master": {"replicas": 1}, "Worker": {"replicas": 1}}
    return [
        managed_run("by-https", "", **code(server.url("mnist"), middle, "https")),
        unmanaged_run(
            "by-ssh", "PyTorchJob", roles=roles, cleanPodPolicy="None", **image, **code(server.ssh_url, middle, "ssh")
        ),
        unmanaged_run("public", **image, **code(server.url("public"), server.commits[0], "authority")),
        unmanaged_run("by-branch", **image, **code(server.url("mnist"), forge.BRANCH, "https")),
    ]


GOOD = {"by-https": 2, "by-ssh": 2, "public": 1, "by-branch": 2}
"""The runs that train, with the number of their commit."""

BAD = {
    "no-commit": "no branch or tag contains this commit; push it first",
    "no-repository": "the repository does not exist, or the credentials do not permit access to it",
    "no-password": "the repository does not exist or is private; for a private repository, set code.secret",
    "no-authority": "the server's certificate is not trusted; add ca.crt with its CA to the Secret of code.secret",
    "wrong-password": f"the server rejected username and password of Secret {PREFIX}wrong-password",
    "wrong-key": f"the server rejected ssh-privatekey of Secret {PREFIX}wrong-key; the key must have no passphrase",
    "wrong-host": f"the server's host key is not in known_hosts of Secret {PREFIX}wrong-host",
}
"""The runs whose checkout fails, with the message."""


def bad_runs(server: Forge) -> list[dict[str, Any]]:
    """Return the runs whose checkout fails, with one fault each."""
    newest, private = server.commits[2], server.url("mnist")
    checkouts = {
        "no-commit": code(private, "f" * 40, "https"),
        "no-repository": code(server.url("nothing"), newest, "https"),
        "no-password": code(private, newest, "authority"),
        "no-authority": code(server.url("public"), newest, None),
        "wrong-password": code(private, newest, "wrong-password"),
        "wrong-key": code(server.ssh_url, newest, "wrong-key"),
        "wrong-host": code(server.ssh_url, newest, "wrong-host"),
    }
    return [unmanaged_run(name, backoffLimit=0, **checkouts[name]) for name in BAD]


@pytest.fixture(scope="module")
def team(lab: Project, server: Forge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield a team's stack with all runs, launched together after the pin of a branch."""
    project = lab.other_stack("code", team_config(lab.stack, *good_runs(server), *bad_runs(server)))
    project.variables |= server.git_environment(tmp_path_factory.mktemp("person"))
    try:
        done = project.up()
        assert done.code != 0, done.text
        assert "run `trainstack pin -s code --code`, and commit the file" in done.text
        done = project.trainstack("pin", "--code")
        assert done.code == 0, done.text
        done = project.up()
        assert done.code == 0, done.text
        yield project
    finally:
        project.take_down()


@pytest.fixture(scope="module")
def usage(team: Project) -> list[dict[str, str]]:
    """Return the resource usage that Kueue counts for the pod sets of the distributed run, and let the run continue."""
    master, _ = await_pods(team, "by-ssh", 2)
    owner = launch(team, "by-ssh")["metadata"]["uid"]
    (workload,) = team.select("workloads.kueue.x-k8s.io", f"kueue.x-k8s.io/job-uid={owner}", NAMESPACE)
    exec_in_pod(team, master, "touch", f"{MOUNT}/go")
    return [pod_set["resourceUsage"] for pod_set in workload["status"]["admission"]["podSetAssignments"]]


@pytest.fixture(scope="module")
def logs(team: Project, usage: list[dict[str, str]]) -> dict[str, str]:
    """Return the logs of all containers of each workload at its end."""
    del usage  # the fixture lets the distributed run continue
    found = {}
    for name in (*GOOD, *BAD):
        await_end(team, name, *(("Failed",) if name in BAD else ("Complete", "Succeeded")))
        words = ["--all-containers", "--ignore-errors", "--tail=-1"]
        found[name] = team.kubectl("logs", "-n", NAMESPACE, "-l", f"trainstack.dev/workload={name}", *words).text
    return found


def test_a_commit_in_the_middle_of_the_history_is_checked_out(logs: dict[str, str], server: Forge) -> None:
    """By https with a password, by ssh with a key, and from a public repository with a private authority."""
    for name, number in GOOD.items():
        assert f"trained by commit {number}\n" in logs[name]
        assert f"checked out {server.commits[number - 1]} of " in logs[name]


@pytest.mark.usefixtures("logs")
def test_the_record_has_repository_and_commit(team: Project, server: Forge, tmp_path: Path) -> None:
    """The result is of the same commit."""
    done = team.trainstack("fetch", run_id(launch(team, "by-https")), "--to", str(tmp_path / "got"))
    assert done.code == 0, done.text
    record = json.loads((tmp_path / "got" / "run.json").read_text())
    assert record["definition"]["code"] == {"git": server.url("mnist"), "revision": server.commits[1]}
    assert (tmp_path / "got" / "result" / "model.txt").read_text() == "model of commit 2"


def test_the_checkout_requests_no_additional_quota(team: Project, usage: list[dict[str, str]]) -> None:
    """Kueue counts the program's requests only; the training operator's init container follows the checkout."""
    assert usage == [{"cpu": "50m", "memory": "64Mi"}] * 2
    pods = team.select("pods", "trainstack.dev/workload=by-ssh", NAMESPACE)
    containers = sorted([container["name"] for container in pod["spec"]["initContainers"]] for pod in pods)
    assert containers == [["checkout"], ["checkout", "init-pytorch"]]


def test_status_and_logs_have_the_reason_of_a_failed_checkout(team: Project, logs: dict[str, str]) -> None:
    """The pod fails at the first attempt, and the program does not run."""
    views = {
        view["launch"]["run_id"].rpartition("-")[0]: view
        for view in json.loads(team.trainstack("status", "--json").out)
    }
    for name, reason in BAD.items():
        (pod,) = views[name]["pods"]
        assert any(problem.endswith(f": {reason}") for problem in pod["problems"])
        assert reason in logs[name]
        assert "trained" not in logs[name]
    done = team.trainstack("logs", "wrong-key")
    assert done.code == 0, done.text
    assert BAD["wrong-key"] in done.out


def test_credentials_occur_only_in_their_secret(team: Project, logs: dict[str, str], server: Forge) -> None:
    """They are in no object, log, state, preview or file of the project."""
    objects = "pods,jobs,pytorchjobs,configmaps,workloads.kueue.x-k8s.io,events"
    outputs = [
        team.kubectl("get", objects, "-n", NAMESPACE, "-o", "json").out,
        team.pulumi("stack", "export", "--show-secrets").out,
        team.pulumi("preview", "--json", "--refresh").out,
    ]
    assert all(server.commits[1] in text for text in outputs)
    for canary in (forge.PASSWORD, server.client.private.splitlines()[2]):
        assert not [text for text in (*outputs, *logs.values()) if canary in text]
        found = team.run(
            ["grep", "--recursive", "--files-with-matches", "--fixed-strings", "-e", canary, ".trainstack"]
        )
        assert (found.code, found.out) == (1, "")


@pytest.mark.usefixtures("logs")
def test_a_second_up_changes_nothing(team: Project, server: Forge) -> None:
    """Neither server-side defaults of init container and volumes nor a moved branch cause a change."""
    forge.set_branch(team, server.commits[2])
    assert_no_changes(team)
    assert team.changes() == {}
    assert pinned_commit(team, server) == server.commits[1]


@pytest.mark.usefixtures("logs")
def test_an_unresolvable_branch_leaves_the_pins_unchanged(team: Project, server: Forge) -> None:
    """The branch is deleted, or the server is not reachable."""
    before = pins(team).read_bytes()
    setting = f"workloads.runs[by-branch].code.revision: {server.url('mnist')}: "
    forge.set_branch(team, "")
    done = team.trainstack("pin", "--code")
    assert (done.code, done.out) == (1, "")
    assert f"nothing was written:\n{setting}there is no branch or tag {forge.BRANCH}; push it, or" in done.err
    forge.set_branch(team, server.commits[2])
    forge.set_available(team, yes=False)
    try:
        # With --check, nothing is written while the server still responds.
        eventually("no answer", lambda: "nothing was written" in team.trainstack("pin", "--code", "--check").err)
        done = team.trainstack("pin", "--code")
        assert (done.code, done.out) == (1, "")
        assert f"nothing was written:\n{setting}fatal: unable to access" in done.err
        assert f"make sure that `git ls-remote {server.url('mnist')}` works without a prompt" in done.err
    finally:
        forge.set_available(team, yes=True)
    assert pins(team).read_bytes() == before


@pytest.mark.usefixtures("logs")
def test_a_new_pin_of_a_branch_is_a_new_run(team: Project, server: Forge) -> None:
    """The run trains at the new commit; other launches are unchanged. A re-included run is not trained again."""
    forge.set_branch(team, server.commits[2])
    old, excluded, before = launch(team, "by-branch"), launch(team, "public"), uids(team)
    team.edit_stack(lambda config: config["trainstack:workloads"].update(exclude=["public"]))
    done = eventually("an answer", lambda: (found := team.trainstack("pin", "--code")).code == 0 and found)
    key = f"{server.url('mnist')} {forge.BRANCH}"
    assert f"moved   {key}  {server.commits[2]} (was {server.commits[1]})" in done.out
    done = team.up()
    assert done.code == 0, done.text
    new = await_end(team, "by-branch", "Complete")
    assert run_id(new) != run_id(old)
    log = team.kubectl("logs", "-n", NAMESPACE, f"job/{new['metadata']['name']}", "--all-containers").text
    assert f"checked out {server.commits[2]} of " in log
    assert "trained by commit 3\n" in log
    after = uids(team)
    changed = {old["metadata"]["name"], new["metadata"]["name"], excluded["metadata"]["name"]}
    assert {name for name in before | after if before.get(name) != after.get(name)} == changed
    assert launches(team, "public") == []

    team.edit_stack(lambda config: config["trainstack:workloads"].pop("exclude"))
    assert team.up().code == 0
    assert uids(team) == after
    assert ledgers(team)[run_id(excluded)] == excluded["metadata"]["name"]


def pins(team: Project) -> Path:
    """Return the stack's pins file."""
    return team.root / "pins" / f"{team.stack}.yaml"


def pinned_commit(team: Project, server: Forge) -> str:
    """Return the commit to which the branch is pinned."""
    return str(yaml.safe_load(pins(team).read_text())[f"{server.url('mnist')} {forge.BRANCH}"])

"""Programs that come from a git repository: by https and by ssh, from a real server; credentials stay hidden."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import Cluster
from devcluster.images import ensure_images
from devcluster.images.catalog import git
from tests.cluster import forge
from tests.cluster.forge import Forge, KeyPair
from tests.cluster.lab import NAMESPACE, await_end, bare, launch, managed, quiet, run_id, team_config
from tests.cluster.project import Project

pytestmark = pytest.mark.cluster

PLACE = "/mnist-training"
PROGRAM = """
import os, pathlib
pathlib.Path("beside.txt").write_text("programs write beside their code")
pathlib.Path(os.environ.get("TRAINSTACK_OUTPUT", "."), "model.txt").write_text("model of commit NUMBER")
print("trained by commit NUMBER", flush=True)
"""
RUNS = ["python3", "main.py"]
PREFIX = "code-"
"""Of the names of all Secrets of the test."""


def code(git: str, revision: str, secret: str | None) -> dict[str, Any]:
    """The workload's fields of a program that is checked out."""
    named = {} if secret is None else {"secret": f"{PREFIX}{secret}"}
    checkout = {"git": git, "revision": revision, "mountPath": PLACE, **named}
    return {"code": checkout, "workingDir": PLACE, "command": RUNS, "args": []}


@pytest.fixture(scope="module")
def server(lab: Project, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    """The git server, and the Secrets of the people who read from it: good ones and bad ones."""
    image = git(("git", "openssh-server"), serve_as=(forge.IMAGE,))
    ensure_images([image], cluster.registry, lambda _: None)
    try:
        found = forge.start(lab, tmp_path_factory.mktemp("forge"), PROGRAM)
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
            forge.secret(lab, NAMESPACE, PREFIX + name, kind, **files)
        yield found
    finally:
        forge.stop(lab)


def good_runs(server: Forge) -> list[dict[str, Any]]:
    """One by each way; the image has Python, git is the init container's."""
    image: dict[str, Any] = {"image": {"build": "workloads/digits"}}
    middle = server.commits[1]
    roles = {"Master": {"replicas": 1}, "Worker": {"replicas": 1}}
    return [
        managed("by-https", "", **code(server.url("mnist"), middle, "https")),
        bare("by-ssh", "PyTorchJob", roles=roles, **image, **code(server.ssh_url, middle, "ssh")),
        bare("public", **image, **code(server.url("public"), server.commits[0], "authority")),
    ]


BAD = {
    "no-commit": "no branch or tag leads to this commit: was it pushed?",
    "no-repository": "there is no such repository, or none that the credentials may read",
    "no-password": "there is no such repository, or it is private: name a Secret under code.secret",
    "no-authority": "the server's certificate is not trusted; its authority's belongs into ca.crt of code.secret",
    "wrong-password": f"the server refuses username and password of Secret {PREFIX}wrong-password",
    "wrong-key": f"the server refuses ssh-privatekey of Secret {PREFIX}wrong-key; it must need no passphrase",
    "wrong-host": f"the server's host key is not in known_hosts of Secret {PREFIX}wrong-host",
}
"""Runs whose checkout fails, and what is said of it."""


def bad_runs(server: Forge) -> list[dict[str, Any]]:
    """Each wrong in one thing."""
    newest, private = server.commits[2], server.url("mnist")
    given = {
        "no-commit": code(private, "f" * 40, "https"),
        "no-repository": code(server.url("nothing"), newest, "https"),
        "no-password": code(private, newest, "authority"),
        "no-authority": code(server.url("public"), newest, None),
        "wrong-password": code(private, newest, "wrong-password"),
        "wrong-key": code(server.ssh_url, newest, "wrong-key"),
        "wrong-host": code(server.ssh_url, newest, "wrong-host"),
    }
    return [bare(name, **given[name]) for name in BAD]


@pytest.fixture(scope="module")
def team(lab: Project, server: Forge) -> Iterator[Project]:
    """A team's stack with all runs, launched together."""
    project = lab.other("code", team_config(lab.stack, *good_runs(server), *bad_runs(server)))
    try:
        done = project.up()
        assert done.code == 0, done.text
        yield project
    finally:
        project.take_down()


def pods(project: Project, name: str) -> list[dict[str, Any]]:
    """The pods of a workload, by name."""
    return project.select("pods", f"trainstack.dev/workload={name}", NAMESPACE)


def log(project: Project, name: str) -> str:
    """What the CLI shows of a run's log."""
    return project.trainstack("logs", name).text


def test_a_program_comes_from_a_commit_in_the_middle_of_the_history(team: Project, server: Forge) -> None:
    """By https with a password, by ssh with a key, and from a public repository of a private authority."""
    for name, end, number in (("by-https", "Complete", 2), ("by-ssh", "Succeeded", 2), ("public", "Complete", 1)):
        await_end(team, name, end)
        assert f"trained by commit {number}" in log(team, name)
        assert f"checked out {server.commits[number - 1]}" in log(team, name)


def test_the_record_holds_repository_and_commit(team: Project, server: Forge, tmp_path: Path) -> None:
    """And the result is that commit's."""
    run = run_id(await_end(team, "by-https", "Complete"))
    done = team.trainstack("fetch", run, "--to", str(tmp_path / "got"))
    assert done.code == 0, done.text
    record = json.loads((tmp_path / "got" / "run.json").read_text())
    assert record["code"] == {"git": server.url("mnist"), "revision": server.commits[1]}
    assert (tmp_path / "got" / "result" / "model.txt").read_text() == "model of commit 2"


def test_the_code_asks_for_no_quota_of_its_own(team: Project) -> None:
    """Kueue counts what the program requests; the operator's own init container comes after ours, and only once."""
    await_end(team, "by-ssh", "Succeeded")
    containers = {
        pod["metadata"]["labels"]["training.kubeflow.org/replica-type"]: [
            each["name"] for each in pod["spec"]["initContainers"]
        ]
        for pod in pods(team, "by-ssh")
    }
    assert containers == {"master": ["checkout"], "worker": ["checkout", "init-pytorch"]}
    owner = launch(team, "by-ssh")["metadata"]["uid"]
    (workload,) = team.select("workloads.kueue.x-k8s.io", f"kueue.x-k8s.io/job-uid={owner}", NAMESPACE)
    usage = [each["resourceUsage"] for each in workload["status"]["admission"]["podSetAssignments"]]
    assert usage == [{"cpu": "50m", "memory": "64Mi"}] * 2


@pytest.mark.parametrize("name", BAD)
def test_a_failed_checkout_says_why(team: Project, name: str) -> None:
    """In the status and in the log, at once and without running the program."""
    await_end(team, name, "Failed")
    seen = json.loads(team.trainstack("status", "--json").out)
    (pod,) = next(view["pods"] for view in seen if view["launch"]["run_id"].startswith(f"{name}-"))
    assert pod.endswith(f" failed: {BAD[name]}")
    assert BAD[name] in log(team, name)
    assert "trained" not in log(team, name)


def test_credentials_are_nowhere_but_in_their_secret(team: Project, server: Forge, dev: Project) -> None:
    """Not in any object, log, state, preview or file of the project."""
    for run in good_runs(server):
        await_end(team, run["name"], "Complete", "Succeeded")
    canaries = [forge.PASSWORD, server.client.private.splitlines()[2]]
    shown = [
        team.kubectl("get", "pods,jobs,pytorchjobs,configmaps,workloads,events", "-n", NAMESPACE, "-o", "json").out,
        *(log(team, run["name"]) for run in [*good_runs(server), *bad_runs(server)]),
        team.pulumi("stack", "export", "--show-secrets").out,
        team.pulumi("preview", "--json", "--refresh").out,
        team.trainstack("render").out,
    ]
    assert all(shown)
    for canary in canaries:
        assert canary in forge.PASSWORD + server.client.private
        assert not [text for text in shown if canary in text]
        found = team.run(
            ["grep", "--recursive", "--files-with-matches", "--fixed-strings", "-e", canary, ".trainstack"]
        )
        assert found.out == ""


def test_a_second_up_changes_nothing(team: Project, server: Forge) -> None:
    """Nothing that the API server fills into an init container or its volumes is a change."""
    for run in good_runs(server):
        await_end(team, run["name"], "Complete", "Succeeded")
    quiet(team)

"""The init container that checks code out: its manifest, and its script with real repositories."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.unit.make import make_distributed, make_run
from tests.unit.platform.restricted import violations
from tests.unit.runs.launches import make_launch
from trainstack.local_cluster.images.catalog import GIT
from trainstack.runs.identity import run_id
from trainstack.runs.images.references import mirror_reference
from trainstack.runs.manifests.build import manifest
from trainstack.runs.manifests.git_init_container import DEADLINE_SECONDS, checkout_script
from trainstack.settings.model import Cluster
from trainstack.settings.sections.code import Code
from trainstack.settings.sections.workloads import Resources, Workload

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SSH = "git@git.example.org:mnist.git"


def make_code(**changes: Any) -> Code:
    """Return the code of a private repository, by ssh."""
    return Code(**{"git": SSH, "revision": COMMIT, "mount_path": "/mnist", "secret": "deploy-key", **changes})


def make_bare(**changes: Any) -> Workload:
    """Return a Job with a public image and a program in the checkout."""
    base: dict[str, Any] = {
        "managed": False,
        "record": None,
        "volumes": (),
        "code": make_code(),
        "working_dir": "/mnist",
        "command": ("bash", "-c", "python main.py"),
        "resources": Resources(requests={"cpu": "1", "memory": "1Gi"}, limits={"nvidia.com/gpu": "1"}),
    }
    return make_run(**{**base, **changes})


def pod_spec(workload: Workload, **facts: Any) -> dict[str, Any]:
    """Return the spec of a Job's pods."""
    launch = make_launch(git_image="alpine/git:1", **facts)
    spec: dict[str, Any] = manifest(workload, "dev", launch)["spec"]["template"]["spec"]
    return spec


def test_a_job_with_code() -> None:
    """Only the init container mounts the Secret. Its cpu and memory are those of the program."""
    assert pod_spec(make_bare()) == {
        "initContainers": [
            {
                "name": "checkout",
                "image": "alpine/git:1",
                "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "-c", checkout_script(), "checkout", SSH, COMMIT, "deploy-key"],
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "readOnlyRootFilesystem": True,
                    "runAsNonRoot": True,
                    "runAsUser": 65534,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "volumeMounts": [
                    {"name": "trainstack-code", "mountPath": "/checkout"},
                    {"name": "trainstack-code-secret", "mountPath": "/credentials", "readOnly": True},
                ],
            }
        ],
        "containers": [
            {
                "name": "training",
                "image": "python:3.11",
                "command": ["bash", "-c", "python main.py"],
                "workingDir": "/mnist",
                "resources": {
                    "requests": {"cpu": "1", "memory": "1Gi"},
                    "limits": {"nvidia.com/gpu": "1"},
                },
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [{"name": "trainstack-code", "mountPath": "/mnist", "subPath": "code"}],
            }
        ],
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [
            {"name": "trainstack-code", "emptyDir": {}},
            {"name": "trainstack-code-secret", "secret": {"secretName": "deploy-key", "optional": True}},
        ],
    }


def test_public_code_needs_no_secret() -> None:
    """No volume is declared for one."""
    spec = pod_spec(make_bare(code=make_code(git="https://git.example.org/mnist", secret=None)))
    assert spec["volumes"] == [{"name": "trainstack-code", "emptyDir": {}}]
    assert spec["initContainers"][0]["volumeMounts"] == [{"name": "trainstack-code", "mountPath": "/checkout"}]
    assert spec["initContainers"][0]["command"][3:] == ["checkout", "https://git.example.org/mnist", COMMIT, ""]


@pytest.mark.parametrize("security", ["restricted", "baseline"])
def test_a_restricted_namespace_accepts_the_init_container(security: str) -> None:
    """It accepts it for each level of the program."""
    spec = pod_spec(make_bare(security=security))
    assert violations({**spec, "containers": []}) == []


def test_code_adds_no_requests_to_a_program_without_requests() -> None:
    """A cluster queue that does not cover a resource admits no pod that requests it."""
    assert "resources" not in pod_spec(make_bare(resources=Resources()))["initContainers"][0]


def test_every_pod_of_a_distributed_run_has_its_checkout() -> None:
    """It has the resources of its role; master and workers read the same commit."""
    built = manifest(make_distributed(code=make_code()), "dev", make_launch(git_image="alpine/git:1"))
    specs = [role["template"]["spec"] for role in built["spec"]["pytorchReplicaSpecs"].values()]
    assert [spec["initContainers"][0]["command"][4:] for spec in specs] == [[SSH, COMMIT, "deploy-key"]] * 2
    assert all(spec["initContainers"][0]["resources"] == spec["containers"][0]["resources"] for spec in specs)


def test_a_managed_run_is_recorded_with_its_code() -> None:
    """The record has the declared values; the name of the Secret does not affect the result."""
    (container,) = pod_spec(make_run(code=make_code()))["containers"]
    record = next(entry["value"] for entry in container["env"] if entry["name"] == "TRAINSTACK_RUN")
    assert f'"code":{{"git":"{SSH}","revision":"{COMMIT}"}}' in record


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"revision": "f" * 40}, False),
        ({"git": "git@git.example.org:other.git"}, False),
        ({"git": "https://git.example.org/mnist"}, True),
        ({"mount_path": "/elsewhere"}, True),
        ({"secret": "other"}, True),
    ],
)
def test_another_commit_is_another_run(changes: dict[str, Any], same: bool) -> None:
    """The protocol and the mount path do not affect the result."""
    facts = make_launch().facts
    before, after = (run_id(make_run(code=code), facts) for code in (make_code(), make_code(**changes)))
    assert (before == after) is same


def test_the_id_of_a_run_with_code_does_not_change() -> None:
    """Records and ledgers have ids. Without code there is no key, so older ids do not change either."""
    assert run_id(make_run(code=make_code()), make_launch().facts) == "train-eb75b5d178"


def test_the_local_cluster_serves_the_default_image() -> None:
    """It serves it under the name that the pods use."""
    assert mirror_reference(GIT) == mirror_reference(Cluster().git_image)


@dataclass(frozen=True)
class Sandbox:
    """The script's folders outside a container."""

    root: Path

    def run(self, url: str, revision: str, seconds: int = DEADLINE_SECONDS) -> subprocess.CompletedProcess[str]:
        """Run the script like the container, with local repositories; `seconds` is its deadline."""
        text = checkout_script()
        for original, replacement in (
            ("/checkout", str(self.root / "checkout")),
            ("/credentials", str(self.root / "credentials")),
            ("/dev/termination-log", str(self.root / "termination-log")),
            ("https:ssh", "https:file"),
            (f"+ {DEADLINE_SECONDS}))", f"+ {seconds}))"),
        ):
            assert original in text
            text = text.replace(original, replacement)
        return subprocess.run(
            ["sh", "-c", text, "checkout", url, revision, "deploy-key"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    @property
    def code(self) -> Path:
        """Return the folder with the checked-out code."""
        return self.root / "checkout" / "code"


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    """Return empty folders, and a Secret with unused values: no server requires it."""
    (tmp_path / "checkout").mkdir()
    (tmp_path / "credentials").mkdir()
    for key in ("ssh-privatekey", "known_hosts"):
        (tmp_path / "credentials" / key).write_text("x")
    return Sandbox(tmp_path)


def git(folder: Path, *arguments: str) -> str:
    """Run git, and return its output."""
    configuration = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    result = subprocess.run(
        ["git", "-C", str(folder), *configuration, *arguments], capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with three commits, each with its number in `main.py`."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for number in (1, 2, 3):
        (folder / "main.py").write_text(f"print({number})\n")
        git(folder, "add", "main.py")
        git(folder, "commit", "--quiet", "-m", str(number))
    return folder


@pytest.mark.parametrize("version", ["0", "2"])
def test_a_commit_in_the_middle_is_checked_out(
    sandbox: Sandbox, repository: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """Only the commit is fetched. With git's older protocol the whole history is fetched."""
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "protocol.version")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", version)
    commit = git(repository, "rev-parse", "HEAD~1")
    result = sandbox.run(f"file://{repository}", commit)
    assert result.returncode == 0, result.stdout + result.stderr
    assert (sandbox.code / "main.py").read_text() == "print(2)\n"
    assert git(sandbox.code, "rev-parse", "HEAD") == commit
    assert ("fetching all branches" in result.stdout) is (version == "0")
    assert (sandbox.code / "main.py").stat().st_mode & 0o777 == 0o666


def test_a_finished_checkout_is_not_changed(sandbox: Sandbox, repository: Path) -> None:
    """A container that restarts in the same pod uses it, even if the server is unreachable."""
    commit = git(repository, "rev-parse", "HEAD")
    assert sandbox.run(f"file://{repository}", commit).returncode == 0
    (sandbox.code / "main.py").write_text("written by the program")
    assert sandbox.run("file:///nowhere", commit).returncode == 0
    assert (sandbox.code / "main.py").read_text() == "written by the program"


def test_an_interrupted_checkout_is_repeated(sandbox: Sandbox, repository: Path) -> None:
    """An incomplete repository is never used."""
    (sandbox.root / "checkout" / "new" / ".git").mkdir(parents=True)
    (sandbox.root / "checkout" / "new" / ".git" / "index.lock").touch()
    result = sandbox.run(f"file://{repository}", git(repository, "rev-parse", "HEAD"))
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_missing_commit_ends_the_checkout(sandbox: Sandbox, repository: Path) -> None:
    """At once, with the same message in the log and the status."""
    result = sandbox.run(f"file://{repository}", COMMIT)
    assert result.returncode == 1
    message = (sandbox.root / "termination-log").read_text()
    assert message.endswith(": no branch or tag contains this commit; push it first\n")
    assert message in result.stdout
    assert not sandbox.code.exists()


def test_the_checkout_waits_for_a_late_secret(
    sandbox: Sandbox, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet adds it to the running pod, here during the first pause. The log has the reason of the wait."""
    key = sandbox.root / "credentials" / "ssh-privatekey"
    key.unlink()
    pause = sandbox.root / "programs" / "sleep"
    pause.parent.mkdir()
    pause.write_text(f"#!/bin/sh\necho x > {key}\n")
    pause.chmod(0o755)
    monkeypatch.setenv("PATH", f"{pause.parent}:{os.environ['PATH']}")
    result = sandbox.run(f"file://{repository}", git(repository, "rev-parse", "HEAD"))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Secret deploy-key does not exist or has no ssh-privatekey\nretrying in 1 s\n" in result.stdout


def test_an_unreachable_server_ends_the_checkout_at_its_deadline(sandbox: Sandbox) -> None:
    """The message has git's last error."""
    for key in ("username", "password"):
        (sandbox.root / "credentials" / key).write_text("x")
    result = sandbox.run("https://localhost:1/mnist", COMMIT, seconds=1)
    assert result.returncode == 1
    assert (
        f": timed out after {DEADLINE_SECONDS} s: fatal: unable to access "
        in (sandbox.root / "termination-log").read_text()
    )


def test_the_object_id_of_a_tag_is_refused(sandbox: Sandbox, repository: Path) -> None:
    """The record would not have a commit. The message has the commit of the tag."""
    git(repository, "tag", "-a", "v1", "-m", "x")
    tag, commit = git(repository, "rev-parse", "v1"), git(repository, "rev-parse", "HEAD")
    assert sandbox.run(f"file://{repository}", tag).returncode == 1
    message = (sandbox.root / "termination-log").read_text()
    assert f"the revision is the id of a tag object; use its commit {commit}" in message
    assert not sandbox.code.exists()


def test_the_log_names_submodules_and_lfs_files(sandbox: Sandbox, repository: Path) -> None:
    """They are not checked out."""
    (repository / ".gitmodules").touch()
    (repository / ".gitattributes").write_text("*.bin filter=lfs\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "4")
    out = sandbox.run(f"file://{repository}", git(repository, "rev-parse", "HEAD")).stdout
    assert "submodules are not checked out" in out
    assert "Git LFS files are checked out as pointers" in out


def test_commits_of_sha256_are_checked_out(sandbox: Sandbox, tmp_path: Path) -> None:
    """The length of the revision shows the hash function of the repository."""
    folder = tmp_path / "long"
    folder.mkdir()
    git(folder, "init", "--quiet", "--object-format=sha256")
    (folder / "main.py").touch()
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "1")
    commit = git(folder, "rev-parse", "HEAD")
    assert len(commit) == 64
    assert sandbox.run(f"file://{folder}", commit).returncode == 0
    assert (sandbox.code / "main.py").exists()


def test_the_script_contains_nothing_that_kubernetes_would_expand() -> None:
    """Only `$$` would be: `$(NAME)` is expanded only if the container has the variable, and it has none."""
    assert "$$" not in checkout_script()
    assert "env" not in pod_spec(make_bare())["initContainers"][0]

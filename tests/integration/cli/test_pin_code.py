"""`trainstack pin` of branches and tags, with real repositories and the user's git."""

import base64
import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from trainstack.cli.app import app
from trainstack.cli.commands import pin as command
from trainstack.live import code_commits
from trainstack.settings.loading.load import load

SITE = "https://git.example.org"
ENVIRONMENT = """\
config:
  trainstack:environment: {namespaces: [{name: lab}]}
  trainstack:workloads:
    runs:
"""
RUN = """\
      - name: NAME
        kind: Job
        namespace: lab
        managed: false
        image: {name: "example.org/hello@sha256:%s"}
        code: {git: "GIT", revision: "REVISION", mountPath: /code SECRET}
""" % ("f" * 64)
FILE = "pins/lab.yaml"
KEY = f"{SITE}/mnist.git main"


def git(*words: str, folder: Path) -> str:
    """Run git and return its output."""
    process = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


class Repository:
    """A clone with the repository that it pushes to."""

    def __init__(self, folder: Path) -> None:
        self.clone = folder / "clone"
        git("init", "--quiet", "--bare", "--initial-branch=main", str(folder / "mnist.git"), folder=folder)
        git("clone", "--quiet", str(folder / "mnist.git"), str(self.clone), folder=folder)

    def commit(self) -> str:
        """Push one more commit on `main`."""
        git("commit", "--quiet", "--allow-empty", "--message=one more", folder=self.clone)
        git("push", "--quiet", "origin", "HEAD:refs/heads/main", folder=self.clone)
        return git("rev-parse", "HEAD", folder=self.clone)

    def push(self, *refs: str) -> None:
        git("push", "--quiet", "origin", *refs, folder=self.clone)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project as the current folder, with only the tests' git configuration."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "Pulumi.yaml").touch()
    monkeypatch.chdir(folder)
    for name in ("GIT_SSH_COMMAND", "GIT_SSH", "GIT_ASKPASS", "SSH_ASKPASS"):
        monkeypatch.delenv(name, raising=False)
    variables = {
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    variables |= {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return folder


def configure(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """Write the user's git configuration for this test."""
    monkeypatch.setenv("GIT_CONFIG_COUNT", str(len(values)))
    for index, (key, value) in enumerate(values.items()):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{index}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{index}", value)


@pytest.fixture
def repository(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Create the repository that the site serves as `mnist.git`; for the user's git it is a folder."""
    configure(monkeypatch, **{f"url.{tmp_path}/.insteadOf": f"{SITE}/"})
    return Repository(tmp_path)


def declare(root: Path, *revisions: str, address: str = f"{SITE}/mnist.git", secret: str = "") -> None:
    """Write an environment with a run for each revision."""
    runs = [
        RUN.replace("NAME", f"run-{index}")
        .replace("GIT", address)
        .replace("REVISION", revision)
        .replace(" SECRET", f", secret: {secret}" if secret else "")
        for index, revision in enumerate(revisions)
    ]
    (root / "Pulumi.lab.yaml").write_text(ENVIRONMENT + "".join(runs), encoding="utf-8")


def pin(*words: str) -> Result:
    """Run `trainstack pin --code`."""
    return CliRunner().invoke(app, ["pin", "--code", "-s", "lab", *words], env={"COLUMNS": "300"})


def revisions(root: Path) -> list[str]:
    """Return the revisions of the runs of the loaded environment."""
    return [run.code.revision for run in load(root, "lab").workloads.runs if run.code is not None]


def test_a_branch_is_pinned_to_its_commit(root: Path, repository: Repository) -> None:
    """The user's git resolves it once, the pin is kept, and `check` accepts the environment."""
    commit = repository.commit()
    declare(root, "main", "main")
    assert CliRunner().invoke(app, ["check", "-s", "lab"]).exit_code == 4
    result = pin()
    assert result.exit_code == 0, result.output
    assert f"new     {KEY}  {commit}" in result.output
    head, line = (root / FILE).read_text().splitlines()
    assert head == "# The commits of branches and tags of code, written by `trainstack pin -s lab`."
    assert line == f'"{KEY}": "{commit}"'
    assert revisions(root) == [commit, commit]
    assert CliRunner().invoke(app, ["check", "-s", "lab"]).exit_code == 0
    inode = (root / FILE).stat().st_ino
    result = pin("--check")
    assert result.exit_code == 0, result.output
    assert "pins/lab.yaml: 1 kept" in result.output
    assert pin().exit_code == 0
    assert (root / FILE).stat().st_ino == inode


def test_an_excluded_run_keeps_its_pin(root: Path, repository: Repository) -> None:
    """The environment loads without the run, and with it when it is included again."""
    commit = repository.commit()
    declare(root, "main")
    excluding = (root / "Pulumi.lab.yaml").read_text() + "    exclude: [run-0]\n"
    (root / "Pulumi.lab.yaml").write_text(excluding)
    assert load(root, "lab").workloads.runs == ()
    assert pin().exit_code == 0
    assert f'"{KEY}": "{commit}"' in (root / FILE).read_text()
    assert pin("--check").exit_code == 0


def test_a_branch_that_moved_is_reported(root: Path, repository: Repository) -> None:
    """`--check` fails and changes nothing, so the run keeps its commit; without it the new commit is pinned."""
    old = repository.commit()
    declare(root, "main")
    pin()
    new = repository.commit()
    result = pin("--check")
    assert result.exit_code == 4
    assert f"moved   {KEY}  {new} (was {old})" in result.output
    assert f"{FILE}: 1 moved; run `trainstack pin -s lab --code`, and commit the file" in result.output
    assert revisions(root) == [old]
    assert pin().exit_code == 0
    assert revisions(root) == [new]


def test_a_tag_is_pinned_to_the_commit_that_it_points_to(root: Path, repository: Repository) -> None:
    """An annotated tag is an object that no checkout accepts; a lightweight tag names the commit."""
    commit = repository.commit()
    git("tag", "light", folder=repository.clone)
    git("tag", "--annotate", "--message=first", "v1.0", folder=repository.clone)
    repository.push("--tags")
    repository.commit()
    declare(root, "light", "v1.0")
    assert pin().exit_code == 0
    assert revisions(root) == [commit, commit]


def test_names_with_the_same_end_are_different(root: Path, repository: Repository) -> None:
    """git matches the end of a ref; `main` is not `team/main`."""
    repository.commit()
    repository.push("HEAD:refs/heads/team/main", "HEAD:refs/heads/refs/heads/new")
    declare(root, "team/main")
    assert pin().exit_code == 0
    declare(root, "new")
    result = pin()
    assert result.exit_code == 1
    assert f"{SITE}/mnist.git: there is no branch or tag new; push it, or correct the name" in result.output


def test_a_name_for_two_things_is_refused(root: Path, repository: Repository) -> None:
    """The error lists the commits of the branch and of the tag."""
    first = repository.commit()
    git("tag", "main", folder=repository.clone)
    repository.push("refs/tags/main")
    second = repository.commit()
    declare(root, "main")
    result = pin()
    assert result.exit_code == 1
    assert f"main is a branch ({second}) and a tag ({first}); set the revision to" in result.output
    assert not (root / "pins").exists()


def test_one_name_without_a_commit_and_nothing_is_written(root: Path, repository: Repository) -> None:
    """The error lists all such names, each with its setting."""
    repository.commit()
    declare(root, "main", "gone", "lost")
    result = pin()
    assert result.exit_code == 1
    assert "nothing was written:" in result.output
    for index, name in ((1, "gone"), (2, "lost")):
        assert f"workloads.runs[run-{index}].code.revision: {SITE}/mnist.git: there is no branch or tag {name}" in (
            result.output
        )
    assert not (root / "pins").exists()


def test_the_result_for_programs(root: Path, repository: Repository) -> None:
    """The JSON has address, name, commit, former commit and outcome; unused pins are removed."""
    commit = repository.commit()
    declare(root, "main")
    (root / "pins").mkdir()
    (root / FILE).write_text(f"{SITE}/old.git dev: {commit}\n", encoding="utf-8")
    result = pin("--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {
        "file": FILE,
        "changed": True,
        "pins": [],
        "code": [
            {"git": f"{SITE}/mnist.git", "revision": "main", "commit": commit, "was": None, "state": "new"},
            {"git": f"{SITE}/old.git", "revision": "dev", "commit": None, "was": commit, "state": "unused"},
        ],
    }
    assert (root / FILE).read_text().splitlines()[1:] == [f'"{KEY}": "{commit}"']


def test_code_and_images_share_the_file(root: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its own section; `--code` makes no request to a registry, and the digests are kept."""

    class Served:
        def digest(self, _: str) -> str:
            return f"sha256:{'b' * 64}"

    monkeypatch.setattr(command, "_registries", lambda _: Served())
    first = repository.commit()
    declare(root, "main")
    result = CliRunner().invoke(app, ["pin", "-s", "lab"], env={"COLUMNS": "300"})
    assert result.exit_code == 0, result.output
    text = (root / FILE).read_text()
    assert text.splitlines() == [
        "# The digests of images, written by `trainstack pin -s lab`.",
        f"alpine/git:2.47.2: sha256:{'b' * 64}",
        f"busybox:1.35: sha256:{'b' * 64}",
        "# The commits of branches and tags of code, written by `trainstack pin -s lab`.",
        f'"{KEY}": "{first}"',
    ]
    monkeypatch.setattr(command, "_registries", lambda _: pytest.fail("a registry was asked"))
    second = repository.commit()
    assert pin().exit_code == 0
    assert (root / FILE).read_text() == text.replace(first, second)


def test_a_missing_repository_is_reported_with_the_last_line_of_git(root: Path, repository: Repository) -> None:
    """The error names the command that has to succeed."""
    declare(root, "main", address=f"{SITE}/nothing.git")
    result = pin()
    assert result.exit_code == 1
    assert f"{SITE}/nothing.git: fatal: '{repository.clone.parent}/nothing.git' does not appear to be" in result.output
    assert f"make sure that `git ls-remote {SITE}/nothing.git` works without a prompt" in result.output


def test_a_server_that_does_not_answer_is_waited_for_so_long(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """git and its helper are terminated then."""
    monkeypatch.setattr(code_commits, "TIMEOUT_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(20)
        connections = list[socket.socket]()

        class Process(subprocess.Popen[str]):
            """Counts the timeout of `ls-remote` from its connection: on a busy machine git takes seconds to start."""

            def communicate(self, *arguments: Any, **options: Any) -> tuple[str, str]:
                if "ls-remote" in str(self.args):
                    connections.append(silent.accept()[0])
                return super().communicate(*arguments, **options)

        monkeypatch.setattr(subprocess, "Popen", Process)
        address = f"https://127.0.0.1:{silent.getsockname()[1]}/mnist.git"
        declare(root, "main", address=address)
        result = pin()
        (connection,) = connections
        with connection:
            connection.settimeout(20)
            while connection.recv(4096):
                pass  # the greeting of TLS, and then the end, since no process holds the connection
    assert result.exit_code == 1
    assert f"{address}: no response within 1 s" in result.output


def test_without_git_the_error_has_the_remedy(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may have no git."""
    declare(root, "main")
    monkeypatch.setenv("PATH", str(tmp_path))
    result = pin()
    assert result.exit_code == 1
    assert "git is not installed; install it, or write commits instead of branches and tags" in result.output


@pytest.mark.parametrize("way", ["variable", "configuration", "program"])
def test_ssh_is_the_persons_own_and_never_prompts(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The ssh command of the user's git gets BatchMode; the error has its message, not the lines that git adds."""
    ssh, called = tmp_path / "own ssh", tmp_path / "called"
    ssh.write_text(
        f'#!/bin/sh\necho "$@" >> {called}\necho "git@git.example.org: Permission denied (publickey)." >&2\nexit 255\n'
    )
    ssh.chmod(0o755)
    if way == "variable":
        monkeypatch.setenv("GIT_SSH_COMMAND", f"'{ssh}' -i key")
    elif way == "configuration":
        configure(monkeypatch, **{"core.sshCommand": f"'{ssh}' -i key"})
    else:
        monkeypatch.setenv("GIT_SSH", str(ssh))
    declare(root, "main", address="git@git.example.org:mnist.git", secret="deploy-key")
    result = pin()
    assert result.exit_code == 1
    assert (
        "git@git.example.org:mnist.git: git@git.example.org: Permission denied (publickey).; make sure that"
        in result.output
    )
    words = called.read_text().splitlines()[-1]
    assert words.startswith("-o BatchMode=yes" if way == "program" else "-i key -o BatchMode=yes")
    assert "git-upload-pack 'mnist.git'" in words


class Private(BaseHTTPRequestHandler):
    """A repository, as plain files, for one user."""

    def do_GET(self) -> None:
        """Serve the list of refs to requests with the password."""
        if self.headers.get("Authorization") != f"Basic {base64.b64encode(b'ada:secret-71c2').decode()}":
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{'ab' * 20}\trefs/heads/main\n".encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def private(root: Path) -> Iterator[str]:
    """Return the base address of the server; the user's git is redirected to it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Private) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        declare(root, "main")
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_password_is_the_persons_helpers(root: Path, private: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """git reads it from the user's credential helper."""
    helper = '!printf "username=ada\\npassword=secret-71c2\\n"; :'
    configure(monkeypatch, **{f"url.http://{private}/.insteadOf": f"{SITE}/", "credential.helper": helper})
    result = pin()
    assert result.exit_code == 0, result.output
    assert revisions(root) == ["ab" * 20]


def test_no_password_is_prompted_for(private: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a terminal nor a window prompts: without a helper the command fails at once."""
    ask, prompted = tmp_path / "ask", tmp_path / "asked"
    ask.write_text(f"#!/bin/sh\ntouch {prompted}\n")
    ask.chmod(0o755)
    monkeypatch.setenv("SSH_ASKPASS", str(ask))
    configure(monkeypatch, **{f"url.http://{private}/.insteadOf": f"{SITE}/", "core.askPass": str(ask)})
    result = pin()
    assert result.exit_code == 1
    assert "terminal prompts disabled" in result.output
    assert not prompted.exists()


def test_a_token_in_the_persons_configuration_is_not_told(private: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`insteadOf` may put a token into the address, which git prints when it fails."""
    configure(monkeypatch, **{f"url.http://ada:canary-20f1@{private}/.insteadOf": f"{SITE}/"})
    result = pin()
    assert result.exit_code == 1
    assert f"http://{private}/mnist.git" in result.output
    assert "canary-20f1" not in result.output

"""`trainstack pin` of branches and tags: against real repositories, by the person's own git."""

import base64
import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from trainstack.cli import pin as command
from trainstack.cli.app import app
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
    """What git prints."""
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class Repository:
    """A clone with the repository that it pushes to."""

    def __init__(self, folder: Path) -> None:
        self.clone = folder / "clone"
        git("init", "--quiet", "--bare", "--initial-branch=main", str(folder / "mnist.git"), folder=folder)
        git("clone", "--quiet", str(folder / "mnist.git"), str(self.clone), folder=folder)

    def commit(self) -> str:
        """One more commit on `main`, pushed."""
        git("commit", "--quiet", "--allow-empty", "--message=one more", folder=self.clone)
        git("push", "--quiet", "origin", "HEAD:refs/heads/main", folder=self.clone)
        return git("rev-parse", "HEAD", folder=self.clone)

    def push(self, *refs: str) -> None:
        """Push them."""
        git("push", "--quiet", "origin", *refs, folder=self.clone)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project as the current folder, and no configuration of git's but the tests' own."""
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
    """The person's configuration of git, for this test."""
    monkeypatch.setenv("GIT_CONFIG_COUNT", str(len(values)))
    for index, (key, value) in enumerate(values.items()):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{index}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{index}", value)


@pytest.fixture
def repository(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """What the site serves as `mnist.git`: for the person's git it is a folder."""
    configure(monkeypatch, **{f"url.{tmp_path}/.insteadOf": f"{SITE}/"})
    return Repository(tmp_path)


def declare(root: Path, *revisions: str, address: str = f"{SITE}/mnist.git", secret: str = "") -> None:
    """An environment with a run for each revision."""
    runs = [
        RUN.replace("NAME", f"run-{index}")
        .replace("GIT", address)
        .replace("REVISION", revision)
        .replace(" SECRET", f", secret: {secret}" if secret else "")
        for index, revision in enumerate(revisions)
    ]
    (root / "Pulumi.lab.yaml").write_text(ENVIRONMENT + "".join(runs), encoding="utf-8")


def pin(*words: str) -> Result:
    """Pin the code alone."""
    return CliRunner().invoke(app, ["pin", "--code", "-s", "lab", *words], env={"COLUMNS": "300"})


def revisions(root: Path) -> list[str]:
    """What the runs are of, once the environment is loaded."""
    return [run.code.revision for run in load(root, "lab").workloads.runs if run.code is not None]


def test_a_branch_is_pinned_to_its_commit(root: Path, repository: Repository) -> None:
    """It is asked with the person's git, written once, and kept; a check of the environment is content then."""
    commit = repository.commit()
    declare(root, "main", "main")
    assert CliRunner().invoke(app, ["check", "-s", "lab"]).exit_code == 4
    done = pin()
    assert done.exit_code == 0, done.output
    assert f"new     {KEY}  {commit}" in done.output
    head, line = (root / FILE).read_text().splitlines()
    assert head == "# The commits of branches and tags of code, written by `trainstack pin -s lab`."
    assert line == f'"{KEY}": "{commit}"'
    assert revisions(root) == [commit, commit]
    assert CliRunner().invoke(app, ["check", "-s", "lab"]).exit_code == 0
    inode = (root / FILE).stat().st_ino
    done = pin("--check")
    assert done.exit_code == 0, done.output
    assert "pins/lab.yaml: 1 kept" in done.output
    assert pin().exit_code == 0
    assert (root / FILE).stat().st_ino == inode


def test_an_excluded_run_keeps_its_pin(root: Path, repository: Repository) -> None:
    """The environment loads without it; so does the run when it is taken back."""
    commit = repository.commit()
    declare(root, "main")
    excluding = (root / "Pulumi.lab.yaml").read_text() + "    exclude: [run-0]\n"
    (root / "Pulumi.lab.yaml").write_text(excluding)
    assert load(root, "lab").workloads.runs == ()
    assert pin().exit_code == 0
    assert f'"{KEY}": "{commit}"' in (root / FILE).read_text()
    assert pin("--check").exit_code == 0


def test_a_branch_that_moved_is_told(root: Path, repository: Repository) -> None:
    """`--check` fails and changes nothing, so the run stays what it is; without it the new commit is pinned."""
    old = repository.commit()
    declare(root, "main")
    pin()
    new = repository.commit()
    done = pin("--check")
    assert done.exit_code == 4
    assert f"moved   {KEY}  {new} (was {old})" in done.output
    assert f"{FILE}: 1 moved; run `trainstack pin -s lab --code`, and commit the file" in done.output
    assert revisions(root) == [old]
    assert pin().exit_code == 0
    assert revisions(root) == [new]


def test_a_tag_is_pinned_to_the_commit_that_it_points_to(root: Path, repository: Repository) -> None:
    """An annotated tag is an object of its own, which no checkout takes; a light one is a name for the commit."""
    commit = repository.commit()
    git("tag", "light", folder=repository.clone)
    git("tag", "--annotate", "--message=first", "v1.0", folder=repository.clone)
    repository.push("--tags")
    repository.commit()
    declare(root, "light", "v1.0")
    assert pin().exit_code == 0
    assert revisions(root) == [commit, commit]


def test_names_that_only_end_alike_are_others(root: Path, repository: Repository) -> None:
    """git itself looks for the end of a ref: `main` is not `team/main`."""
    repository.commit()
    repository.push("HEAD:refs/heads/team/main", "HEAD:refs/heads/refs/heads/new")
    declare(root, "team/main")
    assert pin().exit_code == 0
    declare(root, "new")
    done = pin()
    assert done.exit_code == 1
    assert f"{SITE}/mnist.git: there is no branch or tag new; push it, or correct the name" in done.output


def test_a_name_for_two_things_is_refused(root: Path, repository: Repository) -> None:
    """A branch and a tag: the commits of both are told."""
    first = repository.commit()
    git("tag", "main", folder=repository.clone)
    repository.push("refs/tags/main")
    second = repository.commit()
    declare(root, "main")
    done = pin()
    assert done.exit_code == 1
    assert f"main is a branch ({second}) and a tag ({first}); set the revision to" in done.output
    assert not (root / "pins").exists()


def test_one_name_without_a_commit_and_nothing_is_written(root: Path, repository: Repository) -> None:
    """All of them are told at once, each with its setting."""
    repository.commit()
    declare(root, "main", "gone", "lost")
    done = pin()
    assert done.exit_code == 1
    assert "nothing was written:" in done.output
    for index, name in ((1, "gone"), (2, "lost")):
        assert f"workloads.runs[run-{index}].code.revision: {SITE}/mnist.git: there is no branch or tag {name}" in (
            done.output
        )
    assert not (root / "pins").exists()


def test_the_result_for_programs(root: Path, repository: Repository) -> None:
    """Address, name, commit, what it was, and what became of it; what nobody uses goes."""
    commit = repository.commit()
    declare(root, "main")
    (root / "pins").mkdir()
    (root / FILE).write_text(f"{SITE}/old.git dev: {commit}\n", encoding="utf-8")
    assert json.loads(pin("--json").stdout) == {
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
    """Each under a line of its own; with `--code` no registry is asked, and the digests stay as they are."""

    class Served:
        def digest(self, _: str) -> str:
            return f"sha256:{'b' * 64}"

    monkeypatch.setattr(command, "_registries", lambda _: Served())
    first = repository.commit()
    declare(root, "main")
    done = CliRunner().invoke(app, ["pin", "-s", "lab"], env={"COLUMNS": "300"})
    assert done.exit_code == 0, done.output
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


def test_a_repository_that_is_not_there_is_told_with_the_last_line_of_git(root: Path, repository: Repository) -> None:
    """And with the command that has to work."""
    declare(root, "main", address=f"{SITE}/nothing.git")
    done = pin()
    assert done.exit_code == 1
    assert f"{SITE}/nothing.git: fatal: '{repository.clone.parent}/nothing.git' does not appear to be" in done.output
    assert f"make sure that `git ls-remote {SITE}/nothing.git` works without a prompt" in done.output


def test_a_server_that_does_not_answer_is_waited_for_so_long(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """git and its helper are ended then."""
    monkeypatch.setattr(code_commits, "TIMEOUT_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(20)
        address = f"https://127.0.0.1:{silent.getsockname()[1]}/mnist.git"
        declare(root, "main", address=address)
        done = pin()
        connection, _ = silent.accept()
        with connection:
            connection.settimeout(20)
            while connection.recv(4096):
                pass  # the greeting of TLS, and then the end, since nobody is left who holds the connection
    assert done.exit_code == 1
    assert f"{address}: no response within 1 s" in done.output


def test_without_git_the_remedy_is_told(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may have none."""
    declare(root, "main")
    monkeypatch.setenv("PATH", str(tmp_path))
    done = pin()
    assert done.exit_code == 1
    assert "git is not installed; install it, or write commits instead of branches and tags" in done.output


@pytest.mark.parametrize("way", ["variable", "configuration", "program"])
def test_ssh_is_the_persons_own_and_never_prompts(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Whatever ssh the person's git uses gets BatchMode; its message is told, and not what git prints below."""
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
    done = pin()
    assert done.exit_code == 1
    assert (
        "git@git.example.org:mnist.git: git@git.example.org: Permission denied (publickey).; make sure that"
        in done.output
    )
    words = called.read_text().splitlines()[-1]
    assert words.startswith("-o BatchMode=yes" if way == "program" else "-i key -o BatchMode=yes")
    assert "git-upload-pack 'mnist.git'" in words


class Private(BaseHTTPRequestHandler):
    """A repository, as plain files, for one person."""

    def do_GET(self) -> None:
        """The list of refs for whoever has the password."""
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
    """The base address of the server, which the person's git is sent to instead of the site."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Private) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        declare(root, "main")
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_password_is_the_persons_helpers(root: Path, private: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """git asks the credential helper that the person has."""
    helper = '!printf "username=ada\\npassword=secret-71c2\\n"; :'
    configure(monkeypatch, **{f"url.http://{private}/.insteadOf": f"{SITE}/", "credential.helper": helper})
    done = pin()
    assert done.exit_code == 0, done.output
    assert revisions(root) == ["ab" * 20]


def test_nobody_is_prompted_for_a_password(private: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither on a terminal nor by a window: without a helper the command fails at once."""
    ask, asked = tmp_path / "ask", tmp_path / "asked"
    ask.write_text(f"#!/bin/sh\ntouch {asked}\n")
    ask.chmod(0o755)
    monkeypatch.setenv("SSH_ASKPASS", str(ask))
    configure(monkeypatch, **{f"url.http://{private}/.insteadOf": f"{SITE}/", "core.askPass": str(ask)})
    done = pin()
    assert done.exit_code == 1
    assert "terminal prompts disabled" in done.output
    assert not asked.exists()


def test_a_token_in_the_persons_configuration_is_not_told(private: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`insteadOf` may put one into the address, which git prints when it fails."""
    configure(monkeypatch, **{f"url.http://ada:canary-20f1@{private}/.insteadOf": f"{SITE}/"})
    done = pin()
    assert done.exit_code == 1
    assert f"http://{private}/mnist.git" in done.output
    assert "canary-20f1" not in done.output

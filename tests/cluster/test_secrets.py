"""Canaries in all keys of the section `secrets` are in the cluster's Secrets, and nowhere else."""

import base64
import json
import re
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.lab import Config, unmanaged_run
from tests.cluster.project import CommandResult, Project

pytestmark = pytest.mark.cluster

NAMESPACE = "sealed"
SLOTS: dict[tuple[str, str], tuple[str, ...]] = {
    ("registry", "kubernetes.io/dockerconfigjson"): (".dockerconfigjson",),
    ("git", "kubernetes.io/basic-auth"): ("username", "password"),
    ("deploy-key", "kubernetes.io/ssh-auth"): ("ssh-privatekey", "known_hosts"),
    ("object-store", "Opaque"): ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
}
"""The keys of each Secret, by its name and type."""


def make_canary() -> str:
    """Return a random value with characters that JSON escapes."""
    return f'canary "{secrets.token_hex(16)}"\nüber\\{secrets.token_hex(16)}\t'


def make_registry_canary() -> str:
    """Return a canary in the format of a registry's credentials file."""
    return json.dumps({"auths": {"registry.example.org": {"username": "u", "password": make_canary()}}})


def encodings(value: str) -> Iterator[bytes]:
    """Yield the forms of a canary's random words: plain, as also in escaped JSON, and in base64."""
    for word in re.findall("[0-9a-f]{32}", value):
        yield word.encode()
        for before in range(3):
            # The encoding of whole groups of three bytes does not depend on the bytes before and after them.
            aligned = word[-before % 3 :]
            yield base64.b64encode(aligned[: len(aligned) // 3 * 3].encode())


def leaks(text: bytes, canaries: list[str]) -> list[bytes]:
    """Return the forms of the canaries that a text contains."""
    return [form for value in canaries for form in encodings(value) if form in text]


def make_environment() -> Config:
    """Return an environment with empty Secrets in a namespace, and a run that uses them."""
    code = {"git": "https://git.example.org/code.git", "revision": "1" * 40, "mountPath": "/code", "secret": "git"}
    run = unmanaged_run("user", namespace=NAMESPACE, queue=None, volumes=[], command=["true"], code=code)
    run |= {"imagePullSecrets": ["registry"]}
    run |= {"secretEnv": {key: {"secret": "object-store", "key": key} for key in SLOTS["object-store", "Opaque"]}}
    entries = [{"name": name, "namespace": NAMESPACE, "type": kind} for name, kind in SLOTS]
    return {
        "trainstack:environment": {"namespaces": [{"name": NAMESPACE}]},
        "trainstack:queues": {"priorityClasses": None},
        "trainstack:secrets": {"secrets": entries},
        "trainstack:workloads": {"runs": [run]},
    }


@pytest.fixture
def sealed(checkout: Project) -> Iterator[Project]:
    """Yield the stack, and destroy it afterwards."""
    project = checkout.other_stack("sealed", make_environment())
    try:
        yield project
    finally:
        project.take_down()


def set_canaries(project: Project, *names: str) -> dict[tuple[str, str], str]:
    """Set a canary for each key of the named Secrets, or of all, and return the canaries by Secret and key.

    It runs the command that the error message prints.
    """
    canaries = {}
    for index, ((name, kind), keys) in enumerate(SLOTS.items()):
        for key in keys if name in names or not names else ():
            value = make_registry_canary() if kind.endswith("dockerconfigjson") else make_canary()
            path = f'trainstack:secrets.secrets[{index}].values["{key}"]'
            file = project.root.parent / "canary"
            file.write_text(value)
            words = ["sh", "-c", 'pulumi config set --secret --path "$1" --stack "$2" < "$3"', "sh"]
            done = project.run([*words, path, project.stack, str(file)])
            file.unlink()
            assert done.code == 0, done.text
            canaries[name, key] = value
    return canaries


def test_canaries_reach_the_cluster_and_nothing_else(sealed: Project) -> None:
    """No state, backup, preview, review, output or pod spec has them, whether plain, escaped or in base64."""
    canaries = set_canaries(sealed)
    commands = [assert_succeeded(sealed.pulumi("preview", "--json")), assert_succeeded(sealed.up())]
    assert_live(sealed, canaries)
    rotated = canaries | set_canaries(sealed, "git")
    commands += [
        assert_succeeded(sealed.pulumi("preview", "--json")),
        *run_review(sealed),
        assert_succeeded(sealed.up()),
    ]
    assert_live(sealed, rotated)
    commands.append(assert_succeeded(sealed.up("--refresh", "--expect-no-changes")))
    commands += [sealed.trainstack(*words) for words in (("render",), ("check",), ("render", "--explain"), ("status",))]
    commands += [sealed.pulumi("stack", "export"), sealed.pulumi("stack", "output", "--json"), sealed.pulumi("config")]
    assert [done.text for done in commands if done.code] == []
    values = [*canaries.values(), *rotated.values()]
    assert [leaks(done.text.encode(), values) for done in commands] == [[]] * len(commands)
    files = [file for file in sealed.root.rglob("*") if file.is_file() and ".git" not in file.parts]
    assert any(file.parent.name == "trainstack" and file.name == "sealed.json" for file in files)
    assert {file: found for file in files if (found := leaks(file.read_bytes(), values))} == {}
    objects = sealed.kubectl("get", "pods,jobs,configmaps,events,workloads", "-A", "-o", "json").out
    assert leaks(objects.encode(), values) == []


def assert_succeeded(done: CommandResult) -> CommandResult:
    """Assert that a command succeeded, and return it."""
    assert done.code == 0, done.text
    return done


def run_review(project: Project) -> list[CommandResult]:
    """Run the review's steps of a pull request; the copy keeps their reports and the comment."""
    reports = str(project.root / "reviewed")
    options = ["--base", str(project.root), "--head", str(project.root), "--reports", reports]
    steps = (
        ["preview", *options, "--stack", project.stack],
        ["comment", "--stack", project.stack, "--reports", reports],
    )
    done = [project.run(["review", *words], trainstack=True) for words in steps]
    (project.root / "reviewed" / "comment.md").write_text(done[-1].out)
    assert "sealed" in done[-1].out
    return done


def assert_live(project: Project, canaries: dict[tuple[str, str], str]) -> None:
    """Assert that the live Secrets have the canaries, so that a leak was possible."""
    live: dict[tuple[str, str], str] = {}
    for name, kind in SLOTS:
        body: dict[str, Any] = project.get("secret", name, NAMESPACE)
        assert body["type"] == kind
        live |= {(name, key): base64.b64decode(value).decode() for key, value in body["data"].items()}
    assert live == canaries


def test_a_plain_text_value_is_refused_and_not_printed(sealed: Project) -> None:
    """The error has the setting and the command. Nothing reaches the engine or the cluster."""
    value = make_canary()
    set_canaries(sealed, "git")

    def set_plain_text(config: Config) -> None:
        config["trainstack:secrets"]["secrets"][1]["values"]["password"] = value

    sealed.edit_stack(set_plain_text)
    for done in (sealed.trainstack("check"), sealed.up()):
        assert done.code != 0
        assert re.search(r"secrets\[git\]\.values\.password(: |\nwhy +)the secret is in plain text", done.text)
        assert "pulumi config set --secret --path 'trainstack:secrets.secrets[1].values.password'" in done.text
        assert leaks(done.text.encode(), [value]) == []
    assert sealed.get("secret", "git", NAMESPACE) == {}

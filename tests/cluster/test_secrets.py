"""Canaries in every slot of the section `secrets`: in the cluster's Secrets, and nowhere else."""

import base64
import json
import re
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.lab import Config, bare
from tests.cluster.project import Done, Project

pytestmark = pytest.mark.cluster

NAMESPACE = "sealed"
SLOTS: dict[tuple[str, str], tuple[str, ...]] = {
    ("registry", "kubernetes.io/dockerconfigjson"): (".dockerconfigjson",),
    ("git", "kubernetes.io/basic-auth"): ("username", "password"),
    ("deploy-key", "kubernetes.io/ssh-auth"): ("ssh-privatekey", "known_hosts"),
    ("object-store", "Opaque"): ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
}
"""The Secrets by name and type, and the keys of each."""


def make_canary() -> str:
    """A value that nobody writes by chance, and that JSON has to escape."""
    return f'canary "{secrets.token_hex(16)}"\nüber\\{secrets.token_hex(16)}\t'


def make_registry_canary() -> str:
    """The same as the file of a registry's credentials."""
    return json.dumps({"auths": {"registry.example.org": {"username": "u", "password": make_canary()}}})


def seen_as(value: str) -> Iterator[bytes]:
    """The forms of a canary's random words: as they are, also where JSON escapes what is around, and in base64."""
    for word in re.findall("[0-9a-f]{32}", value):
        yield word.encode()
        for before in range(3):
            # Whole groups of three bytes look the same, whatever stands before and after them.
            whole = word[-before % 3 :]
            yield base64.b64encode(whole[: len(whole) // 3 * 3].encode())


def leaks(text: bytes, canaries: list[str]) -> list[bytes]:
    """The forms of the canaries that a text holds."""
    return [form for value in canaries for form in seen_as(value) if form in text]


def make_environment() -> Config:
    """A namespace with the Secrets, which hold nothing yet, and a run that uses them."""
    code = {"git": "https://git.example.org/code.git", "revision": "1" * 40, "mountPath": "/code", "secret": "git"}
    run = bare("user", namespace=NAMESPACE, queue=None, volumes=[], command=["true"], code=code)
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
    """The stack; taken down in the end."""
    project = checkout.other("sealed", make_environment())
    try:
        yield project
    finally:
        project.take_down()


def put(project: Project, *names: str) -> dict[tuple[str, str], str]:
    """A canary in every slot, or in those of some Secrets, by the command that an error names; by Secret and key."""
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
    """Plain, in base64, escaped: not in state, backups, previews, the review, what was printed, or pods' specs."""
    canaries = put(sealed)
    said = [well(sealed.pulumi("preview", "--json")), well(sealed.up())]
    holds(sealed, canaries)
    rotated = canaries | put(sealed, "git")
    said += [well(sealed.pulumi("preview", "--json")), *reviewed(sealed), well(sealed.up())]
    holds(sealed, rotated)
    said.append(well(sealed.up("--refresh", "--expect-no-changes")))
    said += [sealed.trainstack(*words) for words in (("render",), ("check",), ("render", "--explain"), ("status",))]
    said += [sealed.pulumi("stack", "export"), sealed.pulumi("stack", "output", "--json"), sealed.pulumi("config")]
    assert [done.text for done in said if done.code] == []
    every = [*canaries.values(), *rotated.values()]
    assert [leaks(done.text.encode(), every) for done in said] == [[]] * len(said)
    files = [file for file in sealed.root.rglob("*") if file.is_file() and ".git" not in file.parts]
    assert any(file.parent.name == "trainstack" and file.name == "sealed.json" for file in files)
    assert {file: found for file in files if (found := leaks(file.read_bytes(), every))} == {}
    objects = sealed.kubectl("get", "pods,jobs,configmaps,events,workloads", "-A", "-o", "json").out
    assert leaks(objects.encode(), every) == []


def well(done: Done) -> Done:
    """A command that has succeeded."""
    assert done.code == 0, done.text
    return done


def reviewed(project: Project) -> list[Done]:
    """What the steps of a pull request print; their reports and the comment stand in the copy."""
    reports = str(project.root / "reviewed")
    here = ["--base", str(project.root), "--head", str(project.root), "--reports", reports]
    steps = (["preview", *here, "--stack", project.stack], ["comment", "--stack", project.stack, "--reports", reports])
    done = [project.run(["review", *words], trainstack=True) for words in steps]
    (project.root / "reviewed" / "comment.md").write_text(done[-1].out)
    assert "sealed" in done[-1].out
    return done


def holds(project: Project, canaries: dict[tuple[str, str], str]) -> None:
    """The live Secrets have the canaries: so they could have been anywhere."""
    live: dict[tuple[str, str], str] = {}
    for name, kind in SLOTS:
        body: dict[str, Any] = project.get("secret", name, NAMESPACE)
        assert body["type"] == kind
        live |= {(name, key): base64.b64decode(value).decode() for key, value in body["data"].items()}
    assert live == canaries


def test_a_value_in_plain_text_is_refused_without_being_said(sealed: Project) -> None:
    """File, line and command; nothing reaches the engine or the cluster."""
    value = make_canary()
    put(sealed, "git")

    def spell_out(config: Config) -> None:
        config["trainstack:secrets"]["secrets"][1]["values"]["password"] = value

    sealed.edit_stack(spell_out)
    for done in (sealed.trainstack("check"), sealed.up()):
        assert done.code != 0
        assert "secrets.secrets[git].values.password: the secret is in plain text" in done.text
        assert "pulumi config set --secret --path 'trainstack:secrets.secrets[1].values.password'" in done.text
        assert leaks(done.text.encode(), [value]) == []
    assert sealed.get("secret", "git", NAMESPACE) == {}

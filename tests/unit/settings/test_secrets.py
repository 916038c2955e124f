"""Secrets in files: as the engine encrypts them, and in no other way."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.settings.test_load import faults, make_project
from trainstack.platform.secrets import secret
from trainstack.settings.loading.load import load
from trainstack.settings.sections.secrets import Secret

SECRET = """
trainstack:secrets:
  secrets:
    - name: git
      namespace: research
      type: kubernetes.io/basic-auth
      values:
        username: {secure: "v1:a"}
        password: %s
"""
COMMAND = (
    "remove the value from the file, rotate it, and enter the new value at the prompt of "
    "`pulumi config set --secret --path 'trainstack:secrets.secrets[0].values%s'`"
)


def test_what_the_engine_encrypted_is_taken(tmp_path: Path) -> None:
    """The object says what everybody may see; of the values nothing."""
    (declared,) = load(make_project(tmp_path, SECRET % '{secure: "v1:b"}'), "test").secrets.secrets
    assert sorted(declared.values) == ["password", "username"]
    assert secret(declared, "test") == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "git",
            "namespace": "research",
            "labels": {"app.kubernetes.io/managed-by": "trainstack", "trainstack.dev/stack": "test"},
        },
        "type": "kubernetes.io/basic-auth",
    }


def test_they_are_the_file_s_whatever_the_engine_hands_over(tmp_path: Path) -> None:
    """It gives the other sections; of this one the program takes what is encrypted, and refuses what is not."""
    engine = {"trainstack:plan": "{}"}
    root = make_project(tmp_path, SECRET % '{secure: "v1:b"}')
    assert [each.name for each in load(root, "test", engine).secrets.secrets] == ["git"]
    file = root / "Pulumi.test.yaml"
    file.write_text(file.read_text().replace('{secure: "v1:b"}', "hunter2"))
    (fault,) = faults(root, engine=engine)
    assert "the secret is in plain text" in fault


@pytest.mark.parametrize("value", ["hunter2", "12345678", "1.25", "true", "[hunter2]", "{plain: hunter2}", "null"])
def test_plain_text_is_refused_and_not_repeated(tmp_path: Path, value: str) -> None:
    """With its line and the command that encrypts; whatever it looks like, nothing of it is said."""
    (fault,) = faults(make_project(tmp_path, SECRET % value))
    if value == "null":
        assert "a Secret of type kubernetes.io/basic-auth lacks password" in fault
        return
    path = "secrets.secrets[git].values.password"
    assert fault == f"Pulumi.test.yaml:10: {path}: the secret is in plain text; {COMMAND % '.password'}"


@pytest.mark.parametrize(
    "wrong", ["hunter2", "{password: {secure: 12345678}}", "{password: {secure: v1:a, b: hunter2}}"]
)
def test_a_secret_in_the_wrong_place_is_not_repeated_either(tmp_path: Path, wrong: str) -> None:
    """Nor what stands where the engine's text should."""
    config = "trainstack:secrets: {secrets: [{name: a, namespace: b, values: %s}]}"
    (fault,) = faults(make_project(tmp_path, config % wrong))
    assert fault.startswith("Pulumi.test.yaml:2: secrets.secrets[a].values")
    assert "hunter2" not in fault
    assert "12345678" not in fault


def test_a_key_with_dots_is_spelled_as_the_engine_reads_it(tmp_path: Path) -> None:
    """In brackets and quotes: a dot would begin another key."""
    text = SECRET.replace("basic-auth", "dockerconfigjson").replace("password:", ".dockerconfigjson:")
    (fault,) = faults(make_project(tmp_path, text % "hunter2"))
    assert fault.endswith(COMMAND % '[".dockerconfigjson"]')


def test_environments_share_no_secrets(tmp_path: Path) -> None:
    """The engine decrypts those of the stack's file alone."""
    root = make_project(tmp_path, "trainstack:plan: {}")
    text = '\nsecrets: {secrets: [{name: git, namespace: research, values: {a: {secure: "v1:a"}}}]}\n'
    (root / "defaults.yaml").write_text((root / "defaults.yaml").read_text() + text)
    (fault,) = faults(root)
    assert "secrets: environments cannot share secrets; put them into each environment's file" in fault


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": {}}, "the Secret has no values"),
        ({"type": "kubernetes.io/ssh-auth"}, "a Secret of type kubernetes.io/ssh-auth lacks ssh-privatekey"),
        ({"values": {"a b": {"secure": "v1:a"}}}, "is not a valid key of a Secret"),
    ],
)
def test_a_secret_holds_what_its_type_is_for(changes: dict[str, Any], message: str) -> None:
    """The API server would refuse it in the middle of an `up`."""
    given = {"name": "git", "namespace": "research", "values": {"password": {"secure": "v1:a"}}, **changes}
    with pytest.raises(ValueError, match=message):
        Secret.model_validate(given)

"""Secrets in files must be encrypted by the engine."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.settings.loading.test_load import faults, make_project
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


def test_values_that_the_engine_encrypted_are_accepted(tmp_path: Path) -> None:
    """The manifest has only public fields, without values."""
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


def test_secrets_are_read_from_the_file_and_not_from_the_engine(tmp_path: Path) -> None:
    """The engine has the other sections. Encrypted values of this section are accepted, plain ones are refused."""
    engine = {"trainstack:plan": "{}"}
    root = make_project(tmp_path, SECRET % '{secure: "v1:b"}')
    assert [declared.name for declared in load(root, "test", engine).secrets.secrets] == ["git"]
    file = root / "Pulumi.test.yaml"
    file.write_text(file.read_text().replace('{secure: "v1:b"}', "hunter2"))
    (fault,) = faults(root, engine=engine)
    assert "the secret is in plain text" in fault


@pytest.mark.parametrize("value", ["hunter2", "12345678", "1.25", "true", "[hunter2]", "{plain: hunter2}", "null"])
def test_plain_text_is_refused_and_not_repeated(tmp_path: Path, value: str) -> None:
    """The fault has the line and the command that encrypts, and never any part of the value."""
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
    """A value in the place of the ciphertext is not repeated either."""
    config = "trainstack:secrets: {secrets: [{name: a, namespace: b, values: %s}]}"
    (fault,) = faults(make_project(tmp_path, config % wrong))
    assert fault.startswith("Pulumi.test.yaml:2: secrets.secrets[a].values")
    assert "hunter2" not in fault
    assert "12345678" not in fault


def test_a_key_with_dots_is_spelled_as_the_engine_reads_it(tmp_path: Path) -> None:
    """The key is in brackets and quotes, because a dot would separate keys."""
    text = SECRET.replace("basic-auth", "dockerconfigjson").replace("password:", ".dockerconfigjson:")
    (fault,) = faults(make_project(tmp_path, text % "hunter2"))
    assert fault.endswith(COMMAND % '[".dockerconfigjson"]')


def test_environments_share_no_secrets(tmp_path: Path) -> None:
    """The engine decrypts only the secrets of the stack's file."""
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
def test_a_secret_has_the_keys_of_its_type(changes: dict[str, Any], message: str) -> None:
    """The API server would refuse it during an `up`."""
    fields = {"name": "git", "namespace": "research", "values": {"password": {"secure": "v1:a"}}, **changes}
    with pytest.raises(ValueError, match=message):
        Secret.model_validate(fields)

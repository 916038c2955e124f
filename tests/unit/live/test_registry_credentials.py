"""Logins and certificates of registries, as the image tools store them."""

import base64
import json
from pathlib import Path

import pytest

from trainstack.live.registry_credentials import (
    IDENTITY_TOKEN,
    RegistryCredentials,
    create_tls_context,
    read_credentials,
)
from trainstack.live.registry_errors import RegistryError


def own_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write docker's file into this folder, and hide all others."""
    monkeypatch.delenv("REGISTRY_AUTH_FILE", raising=False)
    for variable in ("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DOCKER_CONFIG"):
        monkeypatch.setenv(variable, str(folder))


def test_credentials_are_those_of_docker_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logins have the registry's host, for any form of the key; an entry without a login is a helper's."""
    own_files(tmp_path, monkeypatch)
    assert read_credentials() == RegistryCredentials()
    auth = base64.b64encode(b"ann:a:b").decode()
    auths = {
        "https://index.docker.io/v1/": {"auth": auth},
        "r.example.org:5000": {"username": "bob", "password": "x"},
        "helped.example.org": {},
        "azure.example.org": {"auth": auth, "identitytoken": "refresh"},
    }
    (tmp_path / "config.json").write_text(json.dumps({"auths": auths}))
    assert read_credentials().stored == {
        "docker.io": ("ann", "a:b"),
        "r.example.org:5000": ("bob", "x"),
        "azure.example.org": (IDENTITY_TOKEN, "refresh"),
    }


def test_credentials_of_buildah_and_podman_come_before_docker_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order is that of those tools; only REGISTRY_AUTH_FILE is read if set."""
    files = {
        "XDG_RUNTIME_DIR": ("run", "run/containers/auth.json"),
        "XDG_CONFIG_HOME": ("config", "config/containers/auth.json"),
        "DOCKER_CONFIG": ("docker", "docker/config.json"),
        "REGISTRY_AUTH_FILE": ("given.json", "given.json"),
    }
    for variable, (_, name) in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        auths = {key: {"username": variable, "password": "x"} for key in ("r.example.org", variable)}
        file.write_text(json.dumps({"auths": auths}))
        monkeypatch.delenv(variable, raising=False)
    for variable in ("DOCKER_CONFIG", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / files[variable][0]))
        assert read_credentials().stored["r.example.org"] == (variable, "x")
    assert read_credentials().stored.keys() == {"r.example.org", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DOCKER_CONFIG"}
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "given.json"))
    assert read_credentials().stored.keys() == {"r.example.org", "REGISTRY_AUTH_FILE"}


def test_the_credentials_of_a_repository_come_before_those_of_its_registry() -> None:
    """`podman login r.example.org/team` applies to that part of the registry alone."""
    stored = {"r.example.org": ("all", "1"), "r.example.org/team": ("team", "2"), "r.example.org/te": ("no", "3")}
    users = [
        RegistryCredentials(stored).login(*words)
        for words in (("r.example.org", "team/a"), ("r.example.org", "a"), ("other.example.org", "team/a"))
    ]
    assert users == [("team", "2"), ("all", "1"), None]


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names its folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".config" / "containers" / "certs.d" / "r.example.org"
    folder.mkdir(parents=True)
    (folder / "ca.crt").write_text("no certificate")
    with pytest.raises(RegistryError, match=f"{folder}: cannot read a certificate"):
        create_tls_context("r.example.org")


def test_credentials_that_cannot_be_read_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file."""
    own_files(tmp_path, monkeypatch)
    (tmp_path / "config.json").write_text('{"auths": {"r": {"auth": "%"}}}')
    with pytest.raises(RegistryError, match=r"config\.json: cannot read the credentials"):
        read_credentials()


@pytest.mark.parametrize(
    "content",
    [
        '{"credHelpers": {"r.example.org": "../../evil"}}',
        '{"credsStore": ["desktop"]}',
        '{"credHelpers": "desktop"}',
        '{"auths": {"r.example.org": {"username": "ann", "password": null, "auth": 7}}}',
        "[]",
    ],
)
def test_a_credential_file_of_another_form_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    """A helper's name leads to no program outside of PATH."""
    own_files(tmp_path, monkeypatch)
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(RegistryError, match=r"config\.json: cannot read the credentials"):
        read_credentials()


def make_helper(folder: Path, name: str, script: str) -> None:
    """Write a credential helper."""
    program = folder / f"docker-credential-{name}"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_credential_helpers_are_run_as_docker_runs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry's own helper precedes its stored login, which precedes the default helper; each runs once."""
    own_files(tmp_path, monkeypatch)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    calls = tmp_path / "calls"
    for name in ("ecr-login", "desktop"):
        answer = f'{{\\"ServerURL\\": \\"$server\\", \\"Username\\": \\"{name}\\", \\"Secret\\": \\"s\\"}}'
        make_helper(tmp_path, name, f'server=$(cat); echo "{name} $1 $server" >> {calls}; echo "{answer}"')
    stored = {"username": "ann", "password": "x"}
    config = {
        "auths": {"aws.example.org": stored, "r.example.org": stored, "helped.example.org": {}},
        "credHelpers": {"aws.example.org": "ecr-login"},
        "credsStore": "desktop",
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    credentials = read_credentials()
    registries = ("aws.example.org", "r.example.org", "helped.example.org", "docker.io", "aws.example.org")
    users = [(credentials.login(registry, "team/a") or ("",))[0] for registry in registries]
    assert users == ["ecr-login", "ann", "desktop", "desktop", "ecr-login"]
    assert calls.read_text().splitlines() == [
        "ecr-login get aws.example.org",
        "desktop get helped.example.org",
        "desktop get https://index.docker.io/v1/",
    ]


def test_a_helper_without_a_login_means_an_anonymous_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Helpers report this as an error on stdout."""
    own_files(tmp_path, monkeypatch)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    make_helper(tmp_path, "desktop", "echo credentials not found in native keychain; exit 1")
    (tmp_path / "config.json").write_text('{"credsStore": "desktop"}')
    assert read_credentials().login("r.example.org", "a") is None


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("", "is not on PATH; install it"),
        ("echo 'session expired'; exit 1", "failed: session expired; log in again"),
        ("echo '[]'", "did not print a login"),
        ('echo \'{"Username": "ann", "Secret": 7}\'', "did not print a login"),
        ("echo secret-text", "did not print a login"),
    ],
)
def test_a_helper_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str) -> None:
    """The error has the program, the file and the registry, and none of an output that may hold a secret."""
    own_files(tmp_path, monkeypatch)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    if script:
        make_helper(tmp_path, "ecr-login", script)
    (tmp_path / "config.json").write_text('{"credHelpers": {"r.example.org": "ecr-login"}}')
    with pytest.raises(
        RegistryError, match=rf"docker-credential-ecr-login, which \S+config\.json names.*{words}"
    ) as error:
        read_credentials().login("r.example.org", "a")
    assert "secret-text" not in str(error.value)

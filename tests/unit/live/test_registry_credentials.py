"""Logins and certificates of registries, as the image tools store them."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from trainstack.live.registry_credentials import (
    IDENTITY_TOKEN,
    RegistryCredentials,
    create_tls_context,
    user_credentials,
)
from trainstack.live.registry_errors import RegistryError

HUB = "https://index.docker.io/v1/"
NOT_FOUND = "echo credentials not found in native keychain; exit 1"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of docker's file, beside which helpers are found, and hide all other files."""
    monkeypatch.delenv("REGISTRY_AUTH_FILE", raising=False)
    for variable in ("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DOCKER_CONFIG"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "config.json"


def stored(user: str) -> dict[str, str]:
    """Return the entry of a user."""
    return {"auth": base64.b64encode(f"{user}:x".encode()).decode()}


def write(file: Path, **content: Any) -> None:
    """Write a credential file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))


def make_helper(folder: Path, name: str, script: str) -> None:
    """Write a credential helper."""
    program = folder / f"docker-credential-{name}"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def make_recording_helper(folder: Path, name: str, script: str = "") -> None:
    """Write a helper that records its calls, and prints a login of its own name after the script."""
    answer = f'{{\\"ServerURL\\": \\"$server\\", \\"Username\\": \\"{name}\\", \\"Secret\\": \\"s\\"}}'
    record = f'server=$(cat); echo "{name} $1 $server" >> {folder}/calls'
    make_helper(folder, name, f'{record}; {script or ":"}; echo "{answer}"')


def calls(folder: Path) -> list[str]:
    """Return the recorded calls, without the verb `get`."""
    file = folder / "calls"
    return [line.replace(" get ", " ") for line in file.read_text().splitlines()] if file.exists() else []


def user(registry: str, repository: str = "team/a") -> str | None:
    """Return the user of a registry's login."""
    login = user_credentials().login(registry, repository)
    return login[0] if login else None


def test_credentials_are_those_of_docker_login(config: Path) -> None:
    """Logins have the registry's host, for any form of the key; an entry without a login is a helper's."""
    assert user("docker.io") is None
    auth = base64.b64encode(b"ann:a:b\0\0").decode()
    auths = {
        HUB: {"auth": auth},
        "r.example.org:5000": {"username": "bob", "password": "x"},
        "helped.example.org": {},
        "azure.example.org": {"auth": auth, "identitytoken": "refresh"},
    }
    write(config, auths=auths)
    logins = {name: user_credentials().login(name, "a") for name in ("docker.io", *auths)}
    assert logins == {
        "docker.io": ("ann", "a:b"),
        HUB: ("ann", "a:b"),
        "r.example.org:5000": ("bob", "x"),
        "helped.example.org": None,
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
        write(tmp_path / name, auths={key: stored(variable) for key in ("r.example.org", f"{variable}.example.org")})
        monkeypatch.delenv(variable, raising=False)
    for variable in ("DOCKER_CONFIG", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / files[variable][0]))
        assert user("r.example.org") == variable
    assert [user(f"{variable}.example.org") for variable in files] == [*list(files)[:3], None]
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "given.json"))
    assert [user(f"{variable}.example.org") for variable in files] == [None, None, None, "REGISTRY_AUTH_FILE"]


def test_the_first_file_with_a_login_applies(config: Path, tmp_path: Path) -> None:
    """A helper or a general login of the first file precedes a more specific one of a later file."""
    make_recording_helper(tmp_path, "early")
    first = tmp_path / "containers" / "auth.json"
    write(first, auths={"r.example.org": stored("general")}, credHelpers={"helped.example.org": "early"})
    auths = {"r.example.org/team": stored("specific"), "helped.example.org": stored("late")}
    write(config, auths=auths, credHelpers={"r.example.org": "absent"})
    assert (user("r.example.org"), user("helped.example.org")) == ("general", "early")
    config.write_text("damaged, but not used")
    assert user("r.example.org") == "general"


def test_the_credentials_of_a_repository_come_before_those_of_its_registry(config: Path) -> None:
    """`podman login r.example.org/team` applies to that part of the registry alone."""
    auths = {"r.example.org": "all", "r.example.org/team": "team", "r.example.org/te": "no", "docker.io/library": "hub"}
    write(config, auths={key: stored(name) for key, name in auths.items()})
    users = [
        user("r.example.org"),
        user("r.example.org", "a"),
        user("other.example.org"),
        user("docker.io", "library/a"),
    ]
    assert users == ["team", "all", None, "hub"]


@pytest.mark.parametrize("key", [HUB, "index.docker.io", "docker.io", "registry-1.docker.io"])
def test_each_name_of_docker_hub_counts(config: Path, tmp_path: Path, key: str) -> None:
    """A helper is asked for the name in the file."""
    write(config, auths={key: stored("ann")})
    assert user("docker.io") == "ann"
    make_recording_helper(tmp_path, "hub")
    write(config, credHelpers={key: "hub"})
    assert user("docker.io") == "hub"
    assert calls(tmp_path) == [f"hub {key}"]


@pytest.mark.parametrize("section", ["auths", "credHelpers"])
def test_a_key_in_the_form_of_a_url_counts_for_its_host(config: Path, tmp_path: Path, section: str) -> None:
    """A key that is the host's name precedes it; a part of another host's path does not count."""
    make_recording_helper(tmp_path, "url")
    make_recording_helper(tmp_path, "exact")
    keys = {
        "https://q.example.org/v1/": "url",
        "https://both.example.org/some/path": "url",
        "both.example.org": "exact",
        "http://port.example.org:5000": "url",
        "path.example.org/v1": "url",
    }
    write(config, **{section: {key: stored(name) if section == "auths" else name for key, name in keys.items()}})
    hosts = ("q.example.org", "both.example.org", "port.example.org:5000", "port.example.org", "path.example.org")
    assert [user(host) for host in hosts] == ["url", "exact", "url", None, None]


def test_helpers_of_a_file_precede_its_stored_logins(config: Path, tmp_path: Path) -> None:
    """The order is the registry's helper, the default helper, the stored login; an empty name excludes helpers."""
    make_recording_helper(tmp_path, "ecr-login")
    make_recording_helper(tmp_path, "desktop")
    helped = {"aws.example.org": "ecr-login", "plain.example.org": "", "null.example.org": None}
    names = (*helped, "r.example.org")
    write(config, auths={name: stored("ann") for name in names}, credHelpers=helped, credsStore="desktop")
    assert [user(name) for name in (*names, "docker.io")] == ["ecr-login", "ann", "ann", "desktop", "desktop"]
    assert calls(tmp_path) == ["ecr-login aws.example.org", "desktop r.example.org", f"desktop {HUB}"]


def test_a_helper_without_a_login_is_followed_by_the_next_one(config: Path, tmp_path: Path) -> None:
    """The stored login is last; without one, the user is anonymous."""
    make_recording_helper(tmp_path, "own", NOT_FOUND)
    make_recording_helper(tmp_path, "desktop", NOT_FOUND)
    write(config, auths={"r.example.org": stored("ann")}, credHelpers={"r.example.org": "own"}, credsStore="desktop")
    assert (user("r.example.org"), user("other.example.org")) == ("ann", None)
    assert calls(tmp_path) == ["own r.example.org", "desktop r.example.org", "desktop other.example.org"]


def test_a_helper_runs_once_for_a_registry(config: Path, tmp_path: Path) -> None:
    """All threads and all objects share its answer, which may be a failure."""
    make_recording_helper(tmp_path, "slow", "sleep 0.1")
    make_recording_helper(tmp_path, "failing", "sleep 0.1; echo expired; exit 1")
    write(config, credHelpers={"r.example.org": "slow", "f.example.org": "failing"})

    def find_user(registry: str) -> str | None:
        try:
            return user(registry)
        except RegistryError as error:
            return str(error)

    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(find_user, ["r.example.org", "f.example.org"] * 8))
    assert "slow" in answers
    assert len(answers) == 2
    assert sorted(calls(tmp_path)) == ["failing f.example.org", "slow r.example.org"]


@pytest.mark.parametrize(
    "entry",
    [
        None,
        {},
        {"auth": "", "identitytoken": ""},
        {"auth": None, "identitytoken": None, "username": None, "password": None},
        {"username": "bob", "password": ""},
        {"username": "bob", "password": 7},
        {"auth": base64.b64encode(b"bob:").decode()},
    ],
)
def test_an_entry_without_a_login_is_skipped(config: Path, entry: object) -> None:
    """A less specific entry applies."""
    write(config, auths={"r.example.org/team": entry, "r.example.org": stored("ann")}, credHelpers=None)
    assert user("r.example.org") == "ann"


@pytest.mark.parametrize("content", ["", "\n", "{}", '{"auths": null, "credHelpers": null, "credsStore": null}'])
def test_a_file_without_content_has_no_login(config: Path, content: str) -> None:
    """Tools create such files."""
    config.write_text(content)
    assert user("r.example.org") is None


@pytest.mark.parametrize("other", [{"auth": "%"}, {"auth": 7}, "text", 7, {"auth": base64.b64encode(b"\xff").decode()}])
def test_an_odd_entry_of_another_registry_is_not_read(config: Path, other: object) -> None:
    """It does not matter for this registry."""
    write(
        config,
        auths={"other.example.org": other, "r.example.org": stored("ann")},
        credHelpers={"other.example.org": "../evil", "third.example.org": 7},
    )
    assert user("r.example.org") == "ann"


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names its folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".config" / "containers" / "certs.d" / "r.example.org"
    folder.mkdir(parents=True)
    (folder / "ca.crt").write_text("no certificate")
    with pytest.raises(RegistryError, match=f"{folder}: cannot read a certificate"):
        create_tls_context("r.example.org")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"credHelpers": {"r.example.org": "../../evil"}}', "is not the name of a credential helper"),
        ('{"credHelpers": {"r.example.org": 7}}', "is not the name of a credential helper"),
        ('{"credsStore": ["desktop"]}', "is not the name of a credential helper"),
        ('{"credHelpers": "desktop"}', "credHelpers is not a JSON object"),
        ('{"auths": []}', "auths is not a JSON object"),
        ('{"auths": {"r.example.org": "text"}}', "entry is not a JSON object"),
        ('{"auths": {"r.example.org": {"username": "ann", "auth": 7}}}', "auth is not a text"),
        ('{"auths": {"r.example.org": {"auth": "%"}}}', "auth is not user:password in base64"),
        ('{"auths": {"r.example.org": {"auth": "/zp4"}}}', "auth is not user:password in base64"),
        ('{"auths": {"r.example.org": {"auth": "YW5u"}}}', "auth is not user:password in base64"),
        ("[]", "is not a JSON object"),
        ("null", "is not a JSON object"),
        ("{", "line 1 column 2"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_a_credential_file_of_another_form_is_reported(config: Path, content: str, reason: str) -> None:
    """The error has the file and the registry; a helper's name leads to no program outside of PATH."""
    config.write_text(content)
    with pytest.raises(
        RegistryError, match=rf"config\.json: cannot read the credentials of r\.example\.org \(.*{reason}.*\); correct"
    ):
        user("r.example.org")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("", "is not on PATH; install it"),
        ("echo 'session expired'; exit 1", "failed: session expired; log in again"),
        ("echo credentials not found in native keychain: it is locked; exit 1", "failed: .* locked; log in again"),
        ("echo credentials not found in native keychain >&2; exit 1", "failed: .* keychain; log in again"),
        ("echo '[]'", "did not print a login"),
        ('echo \'{"Username": "ann", "Secret": 7}\'', "did not print a login"),
        ("echo secret-text", "did not print a login"),
    ],
)
def test_a_helper_that_fails_is_named(config: Path, tmp_path: Path, script: str, words: str) -> None:
    """The error has the program, the file and the registry, and none of an output that may hold a secret."""
    if script:
        make_helper(tmp_path, "ecr-login", script)
    write(config, credHelpers={"r.example.org": "ecr-login"})
    with pytest.raises(
        RegistryError,
        match=rf"docker-credential-ecr-login, which \S+config\.json names for r\.example\.org, .*{words}",
    ) as error:
        user("r.example.org")
    assert "secret-text" not in str(error.value)


def test_credentials_without_files_have_no_login() -> None:
    """Such credentials are for requests of anonymous users."""
    assert RegistryCredentials().login("r.example.org", "a") is None

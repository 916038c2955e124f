"""The backend that Pulumi selects, by the files and variables that it reads."""

import json
import pwd
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from trainstack.settings.values import redaction
from trainstack.toolchain import backend
from trainstack.toolchain.errors import ToolchainError

CLOUD = "https://api.pulumi.com"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the home of a user who has never logged in; HOME is another folder."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_dir=str(home)))
    return home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create a project whose file names no backend."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "Pulumi.yaml").write_text("name: trainstack\nruntime: python\n")
    return tmp_path / "project"


def log_in(folder: Path, url: str, token: str = "") -> None:
    """Write the file as `pulumi login` does; a backend that needs no token has an empty one."""
    folder.mkdir(parents=True, exist_ok=True)
    account = {"accessToken": token} if token else {}
    content = {"current": url, "accessTokens": {url: token}, "accounts": {url: account}}
    (folder / "credentials.json").write_text(json.dumps(content))


def test_without_a_login_there_is_no_backend(project: Path, home: Path) -> None:
    """An interrupted login leaves an empty file; empty variables do not count either."""
    assert backend.selected_url(project, {}) is None
    log_in(home / ".pulumi", "")
    assert backend.selected_url(project, {"PULUMI_BACKEND_URL": "", "PULUMI_ACCESS_TOKEN": ""}) is None
    (home / ".pulumi" / "credentials.json").write_text("")
    assert backend.selected_url(project, {}) is None


@pytest.mark.parametrize("url", ["s3://team?region=eu", "file://~", "gs://team", "azblob://team"])
def test_a_login_selects_its_backend(project: Path, home: Path, url: str) -> None:
    """The login is in the home folder of the user's account; HOME does not matter."""
    log_in(home / ".pulumi", url)
    assert backend.selected_url(project, {}) == url


def test_a_user_without_an_account_has_the_home_of_the_variable(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers run under ids without an account."""

    def unknown(_: int) -> None:
        raise KeyError("getpwuid(): uid not found: 23456")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert backend.selected_url(project, {}) is None
    log_in(tmp_path / "given" / ".pulumi", "s3://team")
    assert backend.selected_url(project, {"HOME": str(tmp_path / "given")}) == "s3://team"


def test_the_service_needs_a_token(project: Path, home: Path) -> None:
    """The token is that of the login or of the variable."""
    log_in(home / ".pulumi", CLOUD)
    assert backend.selected_url(project, {}) is None
    assert backend.selected_url(project, {"PULUMI_ACCESS_TOKEN": "pul-1"}) == CLOUD
    log_in(home / ".pulumi", CLOUD, "pul-1")
    assert backend.selected_url(project, {}) == CLOUD
    # The token of one service does not count for another.
    assert backend.selected_url(project, {"PULUMI_BACKEND_URL": "https://pulumi.example.org"}) is None


def test_a_token_alone_selects_the_service(project: Path, home: Path) -> None:
    """The service is that of PULUMI_API, by default Pulumi's."""
    assert backend.selected_url(project, {"PULUMI_ACCESS_TOKEN": "pul-1"}) == CLOUD
    own = {"PULUMI_ACCESS_TOKEN": "pul-1", "PULUMI_API": "https://pulumi.example.org"}
    assert backend.selected_url(project, own) == "https://pulumi.example.org"
    log_in(home / ".pulumi", "s3://team")
    assert backend.selected_url(project, own) == "s3://team"


def test_the_variable_precedes_the_project_and_the_project_the_login(project: Path, home: Path) -> None:
    """The order is that of GetCurrentCloudURL."""
    log_in(home / ".pulumi", "s3://login")
    (project / "Pulumi.yaml").write_text("name: trainstack\nbackend: {url: 's3://project'}\n")
    assert backend.selected_url(project, {"PULUMI_BACKEND_URL": "s3://variable"}) == "s3://variable"
    assert backend.selected_url(project, {}) == "s3://project"
    (project / "Pulumi.yaml").write_text("name: trainstack\nbackend: null\n")
    assert backend.selected_url(project, {}) == "s3://login"


def test_where_the_login_is_read(project: Path, home: Path, tmp_path: Path) -> None:
    """The places are PULUMI_CREDENTIALS_PATH, PULUMI_HOME and ~/.pulumi; the home of `trainstack env` has no login."""
    log_in(home / ".pulumi", "s3://user")
    log_in(tmp_path / "named", "s3://named")
    log_in(tmp_path / "logins", "s3://logins")
    log_in(project / ".trainstack" / "pulumi", "s3://ours")
    named = {"PULUMI_HOME": str(tmp_path / "named")}
    cases: list[tuple[Mapping[str, str], str]] = [
        ({}, "s3://user"),
        (named, "s3://named"),
        ({**named, "PULUMI_CREDENTIALS_PATH": str(tmp_path / "logins")}, "s3://logins"),
        ({"PULUMI_HOME": str(project / ".trainstack" / "pulumi")}, "s3://user"),
    ]
    assert [backend.selected_url(project, caller) for caller, _ in cases] == [url for _, url in cases]


def test_the_embedded_state_of_a_checkout_is_only_its_own(project: Path, home: Path) -> None:
    """A shell with the variables of `dev` is not logged in for `prod`."""
    shell = {"PULUMI_BACKEND_URL": f"file://{project}/.trainstack/backend?metadata=skip"}
    assert backend.selected_url(project, shell) is None
    log_in(home / ".pulumi", "s3://team")
    assert backend.selected_url(project, shell) == "s3://team"


@pytest.mark.parametrize("file", ["Pulumi.yaml", "credentials.json"])
def test_a_broken_file_is_named(project: Path, home: Path, file: str) -> None:
    """The error has the remedy."""
    (home / ".pulumi").mkdir(parents=True)
    broken = (project if file == "Pulumi.yaml" else home / ".pulumi") / file
    broken.write_text("{")
    with pytest.raises(ToolchainError, match=str(broken)) as caught:
        backend.selected_url(project, {})
    assert caught.value.remedy


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        '{"current": 5}',
        '{"current": "https://api.pulumi.com", "accounts": {"https://api.pulumi.com": "pul-secret"}}',
        '{"accounts": ["pul-secret"]}',
        '{"accessTokens": ["pul-secret"]}',
    ],
)
def test_credentials_of_another_form_are_named(project: Path, home: Path, content: str) -> None:
    """The error does not have their values."""
    (home / ".pulumi").mkdir(parents=True)
    (home / ".pulumi" / "credentials.json").write_text(content)
    with pytest.raises(ToolchainError, match=r"credentials\.json is not a file of `pulumi login`") as caught:
        backend.selected_url(project, {})
    assert "secret" not in str(caught.value)
    assert caught.value.remedy == "delete it and run `pulumi login`"


def test_a_url_that_is_not_valid_is_left_to_pulumi(project: Path, home: Path) -> None:
    assert backend.selected_url(project, {"PULUMI_BACKEND_URL": "s3://[team"}) == "s3://[team"


@pytest.mark.parametrize(
    ("url", "displayed"),
    [
        ("postgres://ann:secret@db.example.org:5432/states?sslmode=require", "postgres://db.example.org:5432/states"),
        ("s3://team?region=eu", "s3://team"),
        ("file:///team/state", "file:///team/state"),
        ("https://api.pulumi.com", "https://api.pulumi.com"),
    ],
)
def test_urls_in_messages_have_no_password(url: str, displayed: str) -> None:
    assert redaction.redact_url(url) == displayed

"""The selection of the engine, and its environment."""

import os
import re
import stat
import sys
from pathlib import Path

import pytest

from trainstack.settings.values.published_passphrase import PUBLISHED_PASSPHRASE
from trainstack.toolchain import engine, programs_on_path, python_locks
from trainstack.toolchain.errors import ToolchainError

BUILT = python_locks.version("pulumi-kubernetes")


def make_pulumi(folder: Path, version: str, host: str | None = "\x7fELF") -> Path:
    """Create a folder like an installation of Pulumi; `host` is the content of the language host, None for no host."""
    folder.mkdir(parents=True)
    programs = {"pulumi": f"#!/bin/sh\necho {version}\n", "pulumi-language-python": host}
    for name, text in programs.items():
        if text is not None:
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
    return folder / "pulumi"


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        ("v3.249.9", False),
        ("v3.250.0", True),
        ("3.251.2", True),
        ("v3.300.0-alpha.1", True),
        ("v4.0.0", False),
        ("", False),
        ("dev", False),
    ],
)
def test_supported_versions(version: str, supported: bool) -> None:
    """Versions from the SDK's release up to the next major one are supported."""
    assert (version in programs_on_path.SUPPORTED_PULUMI) is supported


def test_official_pulumi_is_used_as_it_is(tmp_path: Path) -> None:
    """The first supported one on PATH is used, after one that is too old."""
    old = make_pulumi(tmp_path / "old", "v3.100.0")
    good = make_pulumi(tmp_path / "good", "v3.260.0")
    found = programs_on_path.pulumi(os.pathsep.join(str(path.parent) for path in (old, good)))
    assert found.program == programs_on_path.OfficialProgram(good, "v3.260.0")
    assert found.unsupported == programs_on_path.OfficialProgram(old, "v3.100.0")


def test_pulumi_without_language_host_is_not_used(tmp_path: Path) -> None:
    """It could not run the program."""
    found = programs_on_path.pulumi(str(make_pulumi(tmp_path / "bare", "v3.260.0", host=None).parent))
    assert found.program is None
    assert found.reason == "its folder has no pulumi-language-python"


def test_our_own_engine_on_path_does_not_pass_for_an_official_one(tmp_path: Path) -> None:
    """`trainstack env` adds it to PATH."""
    own = make_pulumi(
        tmp_path / "own", "v3.250.0", host="#!/bin/sh\nexec python -m trainstack.toolchain.language_host\n"
    )
    assert programs_on_path.pulumi(str(own.parent)) == programs_on_path.PathSearch()


def test_another_provider_than_the_built_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's resources would name a plugin that this engine cannot find."""
    monkeypatch.setattr(engine, "version", lambda _: "4.34.2")
    message = (
        f"pulumi-kubernetes 4.34.2 is installed, and the provider that is built here is {BUILT}; install "
        f"pulumi-kubernetes=={BUILT}, or the official `pulumi`, which downloads the provider"
    )
    with pytest.raises(ToolchainError, match=re.escape(message)):
        engine.prepare_engine(
            tmp_path, tmp_path / "pulumi", built_here=True, embedded=True, provider=tmp_path / "provider"
        )


def test_prepare_lays_out_the_state_and_repeats_without_change(tmp_path: Path) -> None:
    """The layout has home, backend, passphrase and plugin; the engine's automatic log is off."""
    provider = tmp_path / "cache" / "pulumi-resource-kubernetes"
    checkout = tmp_path / "checkout"
    for _ in range(2):
        engine.prepare_engine(
            checkout, tmp_path / "cache" / "pulumi", built_here=True, embedded=True, provider=provider
        )
    state = checkout / ".trainstack"
    files = {path.relative_to(state).as_posix() for path in state.rglob("*") if not path.is_dir()}
    plugin = next(name for name in files if name.startswith("pulumi/plugins/resource-kubernetes-v"))
    assert files == {"passphrase", "pulumi/logs", plugin}
    assert plugin.endswith("/pulumi-resource-kubernetes")
    assert (state / plugin).readlink() == provider
    assert (state / "backend").is_dir()
    assert (state / "passphrase").read_text().strip() == PUBLISHED_PASSPHRASE


def test_prepare_completes_a_passphrase_that_a_killed_command_left_empty(tmp_path: Path) -> None:
    """The engine would encrypt a new state with the empty passphrase. Any other content is the user's."""
    file = tmp_path / ".trainstack" / "passphrase"
    for content, expected in (("", f"{PUBLISHED_PASSPHRASE}\n"), ("theirs\n", "theirs\n")):
        file.parent.mkdir(exist_ok=True)
        file.write_text(content)
        engine.prepare_engine(tmp_path, Path("/opt/pulumi"), built_here=False, embedded=True, caller={})
        assert file.read_text() == expected
    assert {path.name for path in file.parent.iterdir()} == {"backend", "passphrase"}


def test_prepare_replaces_a_folder_of_logs(tmp_path: Path) -> None:
    """An engine that was called directly has written logs there."""
    logs = tmp_path / ".trainstack" / "pulumi" / "logs"
    logs.mkdir(parents=True)
    (logs / "pulumi.log").write_text("secret")
    engine.prepare_engine(tmp_path, Path("/opt/pulumi"), built_here=True, embedded=True)
    assert stat.S_ISREG(logs.stat().st_mode)
    assert logs.read_text() == ""


def test_environment_of_our_engine(tmp_path: Path) -> None:
    """Plain `pulumi` commands need these variables, which depend only on the checkout and the engine."""
    state = tmp_path / ".trainstack"
    assert engine.engine_variables(
        tmp_path, Path("/tools/bin/pulumi"), built_here=True, embedded=True, caller={"PATH": "/usr/bin"}
    ) == {
        "PATH": f"{state}/bin:/tools/bin:/usr/bin",
        "PULUMI_HOME": f"{state}/pulumi",
        "PULUMI_PYTHON_CMD": sys.executable,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_BACKEND_URL": f"file://{state}/backend?metadata=skip",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_CONFIG_PASSPHRASE_FILE": f"{state}/passphrase",
    }


def test_environment_keeps_the_callers_backend_and_passphrase(tmp_path: Path) -> None:
    """A team's stack is not silently encrypted with the public passphrase of dev."""
    caller = {"PULUMI_BACKEND_URL": "s3://team", "PULUMI_CONFIG_PASSPHRASE": "theirs"}
    variables = engine.engine_variables(tmp_path, Path("/opt/pulumi"), built_here=False, embedded=True, caller=caller)
    assert variables["PULUMI_BACKEND_URL"] == "s3://team"
    assert "PULUMI_CONFIG_PASSPHRASE_FILE" not in variables
    assert "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION" not in variables


@pytest.mark.parametrize(
    ("named", "used"),
    [
        ("file:///team/state", "file:///team/state?metadata=skip"),
        ("file://~", "file://~?metadata=skip"),
        ("file:///team/state?no_tmp_dir=false", "file:///team/state?no_tmp_dir=false&metadata=skip"),
        ("file:///team/state?metadata=", "file:///team/state?metadata="),
        ("s3://team?region=eu", "s3://team?region=eu"),
        ("https://api.pulumi.com", "https://api.pulumi.com"),
    ],
)
def test_a_folder_of_states_gets_no_sidecars(tmp_path: Path, named: str, used: str) -> None:
    """A killed engine could leave an empty one, and could then not read the state. The folder stays the same."""
    caller = {"PULUMI_BACKEND_URL": named}
    variables = engine.engine_variables(tmp_path, Path("/opt/pulumi"), built_here=False, embedded=True, caller=caller)
    assert variables["PULUMI_BACKEND_URL"] == used


def test_environment_is_the_same_from_within_itself(tmp_path: Path) -> None:
    """A second `trainstack env` changes nothing: neither PATH nor the backend becomes longer."""
    once = engine.engine_variables(
        tmp_path, Path("/tools/bin/pulumi"), built_here=True, embedded=True, caller={"PATH": "/usr/bin"}
    )
    twice = engine.engine_variables(tmp_path, Path("/tools/bin/pulumi"), built_here=True, embedded=True, caller=once)
    assert {name: twice[name] for name in ("PATH", "PULUMI_BACKEND_URL")} == {
        name: once[name] for name in ("PATH", "PULUMI_BACKEND_URL")
    }


def test_an_official_engine_has_the_users_home(tmp_path: Path) -> None:
    """Only the state of an embedded environment is created, and no variable sets another home."""
    for embedded in (False, True):
        prepared = engine.prepare_engine(
            tmp_path,
            Path("/opt/pulumi"),
            built_here=False,
            embedded=embedded,
            provider=Path("/opt/provider"),
            caller={},
        )
        assert {"PULUMI_HOME", "PULUMI_CREDENTIALS_PATH"}.isdisjoint(prepared.environment)
        files = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*"))
        state = [".trainstack", ".trainstack/backend", ".trainstack/passphrase"]
        assert files == (state if embedded else [])


def test_our_engine_has_the_users_credentials(tmp_path: Path) -> None:
    """Its home is the checkout's, and no state is created there."""
    caller = {"PATH": "/usr/bin", "PULUMI_HOME": "/home/ann/pulumi"}
    prepared = engine.prepare_engine(
        tmp_path, Path("/tools/bin/pulumi"), built_here=True, embedded=False, caller=caller
    )
    assert prepared.environment["PULUMI_HOME"] == f"{tmp_path}/.trainstack/pulumi"
    assert prepared.environment["PULUMI_CREDENTIALS_PATH"] == "/home/ann/pulumi"
    assert prepared.environment.keys().isdisjoint(EMBEDDED)
    assert not (tmp_path / ".trainstack" / "backend").exists()
    assert not (tmp_path / ".trainstack" / "passphrase").exists()
    named = {**caller, "PULUMI_CREDENTIALS_PATH": "/home/ann/logins"}
    variables = engine.engine_variables(tmp_path, Path("/p"), built_here=True, embedded=False, caller=named)
    assert variables["PULUMI_CREDENTIALS_PATH"] == "/home/ann/logins"


def test_our_engine_has_the_users_credentials_for_another_backend_too(tmp_path: Path) -> None:
    """PULUMI_BACKEND_URL selects the state of an embedded environment; the environment's own state needs no login."""
    caller = {"PULUMI_CREDENTIALS_PATH": "/home/ann/logins", "PULUMI_BACKEND_URL": "https://api.pulumi.com"}
    variables = engine.engine_variables(tmp_path, Path("/p"), built_here=True, embedded=True, caller=caller)
    assert variables["PULUMI_CREDENTIALS_PATH"] == "/home/ann/logins"
    caller["PULUMI_BACKEND_URL"] = f"file://{tmp_path}/.trainstack/backend?metadata=skip"
    variables = engine.engine_variables(tmp_path, Path("/p"), built_here=True, embedded=True, caller=caller)
    assert "PULUMI_CREDENTIALS_PATH" not in variables


@pytest.mark.parametrize(
    ("passphrase", "removed"), [("", {"PULUMI_CONFIG_PASSPHRASE"}), ("theirs", set()), (None, set())]
)
def test_an_empty_passphrase_is_not_set(tmp_path: Path, passphrase: str | None, removed: set[str]) -> None:
    """The engine would use it instead of the file: `incorrect passphrase`. CI systems pass unset secrets as empty."""
    caller = {} if passphrase is None else {"PULUMI_CONFIG_PASSPHRASE": passphrase}
    prepared = engine.prepare_engine(tmp_path, Path("/opt/pulumi"), built_here=False, embedded=True, caller=caller)
    assert prepared.removed_variables == removed
    assert ("PULUMI_CONFIG_PASSPHRASE_FILE" in prepared.environment) == (not passphrase)
    # An empty passphrase may be that of another state.
    assert not engine.prepare_engine(
        tmp_path, Path("/opt/pulumi"), built_here=False, embedded=False, caller={**caller}
    ).removed_variables


EMBEDDED = {"PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"}


@pytest.mark.parametrize("own", [True, False])
def test_a_shell_of_an_embedded_environment_gives_others_nothing(tmp_path: Path, own: bool) -> None:
    """Neither its state nor the published passphrase is passed on, in any variable; the user's choices are kept."""
    pulumi = tmp_path / "bin" / "pulumi"
    shell = engine.prepare_engine(tmp_path, pulumi, built_here=own, embedded=True, caller={"PATH": "/bin"}).environment
    outer = {**shell, "PULUMI_CONFIG_PASSPHRASE": PUBLISHED_PASSPHRASE}
    prepared = engine.prepare_engine(tmp_path, pulumi, built_here=own, embedded=False, caller=outer)
    assert prepared.removed_variables == EMBEDDED | ({"PULUMI_HOME"} if own else set())
    assert prepared.environment.keys().isdisjoint(EMBEDDED)
    (tmp_path / "copy").write_text(f"{PUBLISHED_PASSPHRASE}\n")
    copied = {"PULUMI_CONFIG_PASSPHRASE_FILE": str(tmp_path / "copy")}
    assert (
        engine.prepare_engine(tmp_path, pulumi, built_here=own, embedded=False, caller=copied).removed_variables
        == copied.keys()
    )
    (tmp_path / "theirs").write_text("correct horse\n")
    users = {"PULUMI_BACKEND_URL": "s3://team", "PULUMI_CONFIG_PASSPHRASE_FILE": str(tmp_path / "theirs")}
    prepared = engine.prepare_engine(tmp_path, pulumi, built_here=own, embedded=False, caller=users)
    assert (prepared.removed_variables, prepared.environment["PULUMI_BACKEND_URL"]) == (frozenset(), "s3://team")

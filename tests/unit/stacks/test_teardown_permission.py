"""A command permits the program once to end a stack, and nothing else does."""

import re
import subprocess
import sys
from pathlib import Path

import pulumi
import pytest

from trainstack.errors import RefusedError
from trainstack.stacks.teardown_permission import (
    PERMISSION_VARIABLE,
    Permission,
    TeardownMode,
    permit,
    teardown_permission,
)

KEEP = Permission(
    mode="keep-platform",
    stack="dev",
    deleted=(("LocalQueue", "research", "q"), ("ClusterQueue", None, "q")),
    stop=("digits-0123456789",),
)


@pytest.fixture(autouse=True)
def _no_preview(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    monkeypatch.delenv(PERMISSION_VARIABLE, raising=False)


def inherit(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Set the variable in the environment."""
    monkeypatch.setenv(PERMISSION_VARIABLE, value)


@pytest.mark.parametrize("mode", ["everything", "keep-platform"])
def test_a_command_permits_one_run_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: TeardownMode
) -> None:
    """A second run with the same variable is refused, while the command still runs."""
    with permit(tmp_path, Permission(mode=mode, stack="dev")) as variables:
        inherit(monkeypatch, variables[PERMISSION_VARIABLE])
        assert teardown_permission(tmp_path, "dev") == Permission(mode=mode, stack="dev")
        with pytest.raises(
            RefusedError,
            match=r"is set, but no running .* on 'dev'.* Run `unset TRAINSTACK_TEARDOWN_PERMISSION`",
        ):
            teardown_permission(tmp_path, "dev")


def test_without_the_variable_the_stack_is_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty variable counts as unset."""
    with permit(tmp_path, KEEP):
        assert teardown_permission(tmp_path, "dev") is None
        inherit(monkeypatch, "")
        assert teardown_permission(tmp_path, "dev") is None


@pytest.mark.parametrize("value", ["everything:dev", "keep-platform:dev", "0" * 32, "../../dev", "/etc/passwd", "x"])
def test_an_inherited_variable_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """The program would declare nothing, and `up` would delete everything."""
    inherit(monkeypatch, value)
    with pytest.raises(RefusedError, match="everything would be deleted"):
        teardown_permission(tmp_path, "dev")


def test_a_permission_ends_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine may have run the program or not."""
    with permit(tmp_path, KEEP) as variables:
        inherit(monkeypatch, variables[PERMISSION_VARIABLE])
    with pytest.raises(RefusedError):
        teardown_permission(tmp_path, "dev")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_preview_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of our commands previews the end of a stack."""
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    with permit(tmp_path, KEEP) as variables:
        inherit(monkeypatch, variables[PERMISSION_VARIABLE])
        with pytest.raises(RefusedError):
            teardown_permission(tmp_path, "dev")


def test_a_permission_is_for_one_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another stack of the same checkout is neither declared nor ended."""
    with permit(tmp_path, KEEP) as variables:
        assert re.fullmatch("[0-9a-f]{32}", variables[PERMISSION_VARIABLE])
        inherit(monkeypatch, variables[PERMISSION_VARIABLE])
        with pytest.raises(RefusedError, match="on 'prod'"):
            teardown_permission(tmp_path, "prod")


def test_the_permission_of_a_killed_command_is_useless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its engine may still run, or a shell may have kept the variable. The file is removed when it is presented."""
    inherit(monkeypatch, kill_permitted(tmp_path))
    with pytest.raises(RefusedError, match="no running `trainstack destroy` set it"):
        teardown_permission(tmp_path, "dev")
    assert files(tmp_path) == []


def test_the_permission_of_a_killed_command_is_removed_by_the_next_one(tmp_path: Path) -> None:
    """The permission of a command that runs is not."""
    killed = kill_permitted(tmp_path)
    assert [file.name for file in files(tmp_path)] == [killed]
    with permit(tmp_path, KEEP) as first, permit(tmp_path, Permission(mode="everything", stack="prod")) as second:
        present = {first[PERMISSION_VARIABLE], second[PERMISSION_VARIABLE]}
        assert {file.name for file in files(tmp_path)} == present
    assert files(tmp_path) == []


def files(root: Path) -> list[Path]:
    """Return the files of a project."""
    return [path for path in root.rglob("*") if path.is_file()]


def kill_permitted(root: Path) -> str:
    """Kill a command that permits the end of a stack; return the value of the variable."""
    command = (
        "import sys, time; from pathlib import Path\n"
        "from trainstack.stacks.teardown_permission import Permission, permit\n"
        "with permit(Path(sys.argv[1]), Permission(mode='everything', stack='dev')) as given:\n"
        "    print(*given.values(), flush=True); time.sleep(100)"
    )
    with subprocess.Popen([sys.executable, "-c", command, str(root)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        value = process.stdout.readline().strip()
        process.kill()
    return value

"""The user's programs on PATH, which replace builds; and `go`, which runs only for builds."""

import io
import os
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from rich.console import Console

from tests.unit.toolchain.test_engine import make_pulumi
from trainstack.toolchain import build, digests, go_toolchain, manifests, programs_on_path, tools
from trainstack.toolchain.build import Builder
from trainstack.toolchain.errors import MissingTool
from trainstack.toolchain.go_toolchain import Go
from trainstack.toolchain.groups import GROUPS, GROUPS_BY_NAME
from trainstack.toolchain.places import state_root
from trainstack.toolchain.process_lock import hold_lock

GKE = """\
{
  "clientVersion": {
    "major": "1", "minor": "32+", "gitVersion": "v1.32.4-dispatcher",
    "gitCommit": "4cb5f0764b8d5f425645c6f433394fede34a8a26", "gitTreeState": "clean",
    "buildDate": "2025-05-15T20:09:34Z", "goVersion": "go1.23.8", "compiler": "gc", "platform": "linux/amd64"
  },
  "kustomizeVersion": "v5.5.0"
}
"""
"""The output of the kubectl of Google's SDK."""
UPSTREAM = """\
{
  "clientVersion": {
    "major": "1", "minor": "28", "gitVersion": "v1.28.15",
    "gitCommit": "841856557ef0f6a399096c42635d114d6f2cf7f4", "gitTreeState": "clean",
    "buildDate": "2024-10-22T20:34:56Z", "goVersion": "go1.22.8", "compiler": "gc", "platform": "linux/amd64"
  },
  "kustomizeVersion": "v5.0.4-0.20230601165947-6ce0bf390ce3"
}
"""
"""The output of upstream's kubectl; later ones differ in the values alone."""


def make_script(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def make_kubectl(folder: Path, printed: str) -> Path:
    """Create a kubectl that prints a version for `version --client --output=json`."""
    condition = '[ "$*" = "version --client --output=json" ]'
    return make_script(folder / "kubectl", f"{condition} && printf '%s\\n' '{printed}'")


def version(git_version: str) -> str:
    return UPSTREAM.replace("v1.28.15", git_version)


def path_of(*programs: Path) -> str:
    return os.pathsep.join(str(program.parent) for program in programs)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create an empty cache, and a PATH with a `go` that records its calls."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    make_script(tmp_path / "path" / "go", f'echo "$@" >> "{tmp_path}/calls"; echo go1.99.3')
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return tmp_path / "cache" / "trainstack"


def calls_of_go(tmp_path: Path) -> list[str]:
    file = tmp_path / "calls"
    return file.read_text().splitlines() if file.exists() else []


def make_builds(go_version: str) -> None:
    """Create every group and every manifest like builds with this version of Go."""
    for group in GROUPS:
        folder = Builder(Go(Path("go"), go_version)).folder(group) / "bin"
        folder.mkdir(parents=True)
        for program in group.programs:
            make_script(folder / program.name, "exit 3")
        digests.record_digests(folder.parent)
    for manifest in manifests.MANIFESTS:
        file = manifests._cached_path(manifest)
        file.parent.mkdir(parents=True)
        file.write_text("kind: List")
        digests.record_digests(file.parent)


def ensure(groups: tuple[str, ...], checkout: Path) -> str:
    """Return the output of `ensure`."""
    text = io.StringIO()
    tools.ensure(groups, Console(file=text, width=400), checkout)
    return text.getvalue()


@pytest.mark.parametrize(
    ("git_version", "supported"),
    [
        ("v1.20.5", False),
        ("v1.28.15", False),
        ("v1.29.14", True),
        ("v1.33.1", True),
        ("v1.31.4+k3s1", True),
        ("v1.34.4", True),
        ("v1.99.0-alpha.1", True),
        ("v2.0.0", False),
        ("v0.0.0-master+$Format:%H$", False),
    ],
)
def test_supported_versions_of_kubectl(tmp_path: Path, git_version: str, supported: bool) -> None:
    """Supported are one minor release below the oldest supported cluster, and every later one."""
    kubectl = make_kubectl(tmp_path / "bin", version(git_version))
    found = programs_on_path.kubectl(path_of(kubectl))
    program = programs_on_path.OfficialProgram(kubectl, git_version)
    assert (found.program, found.unsupported) == ((program, None) if supported else (None, program))


def test_a_vendors_version_is_read_too(tmp_path: Path) -> None:
    """Its minor release is not a number."""
    kubectl = make_kubectl(tmp_path / "bin", GKE)
    assert str(programs_on_path.kubectl(path_of(kubectl)).program) == f"kubectl v1.32.4-dispatcher ({kubectl})"


@pytest.mark.parametrize("printed", ["", "Client Version: v1.34.4", "[]", '{"clientVersion": null}'])
def test_a_kubectl_without_a_version_is_not_used(tmp_path: Path, printed: str) -> None:
    """The message names it nevertheless."""
    kubectl = make_kubectl(tmp_path / "bin", printed)
    found = programs_on_path.kubectl(path_of(kubectl))
    assert found.program is None
    assert str(found.unsupported) == f"kubectl of an unknown version ({kubectl})"
    assert found.reason == "needed is v1.29 or later, below v2"


def test_the_first_supported_kubectl_is_used(tmp_path: Path) -> None:
    """Programs that are too old and files that are not executable are skipped."""
    old, good = make_kubectl(tmp_path / "old", version("v1.20.5")), make_kubectl(tmp_path / "new", version("v1.33.1"))
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "kubectl").write_text("notes")
    found = programs_on_path.kubectl(path_of(tmp_path / "none" / "kubectl", old, good))
    assert found.program == programs_on_path.OfficialProgram(good, "v1.33.1")


def test_our_own_links_do_not_pass_for_the_users(cache: Path, tmp_path: Path) -> None:
    """Both the links of a checkout and the folder of a build, which `trainstack env` adds to PATH, are skipped."""
    linked = make_kubectl(tmp_path / "checkout" / ".trainstack" / "bin", version("v1.34.4"))
    built = make_kubectl(cache / "tools" / "kubectl-0" / "bin", version("v1.34.4"))
    assert programs_on_path.kubectl(path_of(linked, built)) == programs_on_path.PathSearch()


def test_official_programs_replace_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another cluster only needed manifests are built; the local cluster is built."""
    pulumi, kubectl = make_pulumi(tmp_path / "a", "v3.260.0"), make_kubectl(tmp_path / "b", version("v1.33.1"))
    monkeypatch.setenv("PATH", path_of(pulumi, kubectl))
    assert tools.needed_groups(local_cluster=False, releases=False) == ()
    assert tools.needed_groups(local_cluster=False) == ("manifests",)
    assert {"engine", "provider"} & {*tools.needed_groups()} == set()
    assert {"kubectl", "cluster", "manifests"} <= {*tools.needed_groups()}
    assert tools.needed_groups(kind=True, judge=False) == ("kubectl", "cluster", "manifests")
    assert tools.replacements() == [f"pulumi v3.260.0 ({pulumi})", f"kubectl v1.33.1 ({kubectl})"]
    assert tools.kubectl() == kubectl
    linked = state_root(tmp_path) / "bin" / "kubectl"
    linked.parent.mkdir(parents=True)
    linked.symlink_to("/built/before")
    prepared = tools.engine(tmp_path, embedded=False)
    assert (prepared.pulumi, prepared.built_here) == (pulumi, False)
    assert not linked.is_symlink()


def test_without_official_programs_a_deployment_needs_what_it_uses(cache: Path) -> None:
    """kubectl is built only for file transfers, manifests only for operators, KWOK and the judge only where used."""
    assert {*tools.needed_groups()} - {*tools.needed_groups(simulation=False, judge=False)} == {
        tools.SIMULATION_GROUP,
        tools.JUDGE_GROUP,
    }
    assert tools.needed_groups(local_cluster=False) == ("engine", "provider", "kubectl", "manifests")
    assert tools.needed_groups(local_cluster=False, kubectl=False, releases=False) == ("engine", "provider")


@pytest.fixture
def old_programs(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Path]:
    """Create a pulumi and a kubectl on PATH that are too old, and the `go` that records its calls."""
    programs = {
        "pulumi": make_pulumi(tmp_path / "a", "v3.100.0"),
        "kubectl": make_kubectl(tmp_path / "b", version("v1.20.5")),
    }
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:{path_of(*programs.values())}")
    return programs


def test_unsupported_programs_are_named_once_with_the_builds(
    old_programs: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has the version found, the version needed, and the duration of the build."""
    built: list[str] = []
    monkeypatch.setattr(Builder, "build", lambda _, group, __: built.append(group.name))
    monkeypatch.setattr(go_toolchain, "ensure", lambda _: Go(Path("go"), "go1.99.3"))
    printed = ensure(("engine", "provider", "kubectl"), tmp_path).splitlines()
    assert built == ["engine", "provider", "kubectl"]
    ranges = ("v3.250 or later, below v4", "v1.29 or later, below v2")
    found = (f"pulumi v3.100.0 ({old_programs['pulumi']})", f"kubectl v1.20.5 ({old_programs['kubectl']})")
    assert printed[:2] == [
        f"{program} is not supported, needed is {needed}; the pinned one is built instead (about {minutes} min)"
        for program, needed, minutes in zip(found, ranges, (10, 2), strict=True)
    ]


def test_unsupported_programs_are_named_beside_built_ones(old_programs: Mapping[str, Path], tmp_path: Path) -> None:
    """Nothing is built, and `go` does not run."""
    make_builds(go_toolchain._pinned_go().version)
    printed = ensure(("engine", "kubectl"), tmp_path).splitlines()
    assert [line.rpartition("; ")[2] for line in printed] == ["the pinned one is used instead"] * 2
    assert tools.kubectl() != old_programs["kubectl"]
    assert calls_of_go(tmp_path) == []


@pytest.mark.parametrize("name", ["pulumi", "kubectl"])
def test_a_command_without_the_tool_names_what_was_found(
    old_programs: Mapping[str, Path], name: str, tmp_path: Path
) -> None:
    """The command builds nothing: the error has the build command and its duration."""
    with pytest.raises(MissingTool) as caught:
        tools.engine(tmp_path, embedded=False) if name == "pulumi" else tools.kubectl()
    versions, groups = ("v3.250 or later, below v4", "engine provider")
    if name == "kubectl":
        versions, groups = ("v1.29 or later, below v2", "kubectl")
    assert str(caught.value).startswith(f"{name} v")
    assert f"({old_programs[name]}) is not supported, needed is {versions}, and the pinned one" in str(caught.value)
    assert str(caught.value).endswith(f": trainstack dev tools {groups}")


@pytest.mark.parametrize("version_of_go", ["go1.99.3", go_toolchain._pinned_go().version])
def test_nothing_to_build_runs_no_go(cache: Path, tmp_path: Path, version_of_go: str) -> None:
    """The `go` on PATH may be a script without a VERSION file, whose version only a call returns."""
    make_builds(version_of_go)
    go_toolchain.record_version(version_of_go)
    ensure(tools.needed_groups(), tmp_path / "checkout")
    assert (state_root(tmp_path / "checkout") / "manifests" / manifests.MANIFESTS[0].file_name).is_file()
    assert tools.program("kubelet").is_file()
    assert calls_of_go(tmp_path) == []


def test_a_missing_tool_in_an_empty_cache_runs_no_go(cache: Path, tmp_path: Path) -> None:
    """The cases are an `ensure` of nothing, and the look-up of a program."""
    ensure((), tmp_path)
    with pytest.raises(MissingTool):
        tools.program("pulumi")
    assert calls_of_go(tmp_path) == []


def test_builds_from_before_versions_were_recorded_are_found(cache: Path, tmp_path: Path) -> None:
    """`go` is called for its version once."""
    make_builds("go1.99.3")
    assert build.find_build(GROUPS_BY_NAME["dns"]) is not None
    assert build.find_build(GROUPS_BY_NAME["kwok"]) is not None
    assert calls_of_go(tmp_path) == ["env GOVERSION"]


def test_a_build_outlives_an_upgrade_of_go(cache: Path, tmp_path: Path) -> None:
    """Sources and flags are the same, and the older compiler was sufficient."""
    make_builds("go1.98.0")
    go_toolchain.record_version("go1.98.0")
    go_toolchain.record_version("go1.98.0")
    assert build.find_build(GROUPS_BY_NAME["dns"]) is not None
    assert (cache / "tools" / "go-versions").read_text() == "go1.98.0\n"


def test_two_processes_record_both_their_versions(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that another process records between the read and the write is kept."""
    (cache / "tools").mkdir(parents=True)
    read, recorded = threading.Event(), go_toolchain._read_recorded_versions

    def reading() -> list[str]:
        found = recorded()
        read.set()
        return found

    monkeypatch.setattr(go_toolchain, "_read_recorded_versions", reading)
    recording = threading.Thread(target=go_toolchain.record_version, args=("go1.98.0",))
    with hold_lock(cache / "locks" / "go-versions", Console(file=io.StringIO())):
        recording.start()
        assert read.wait(60)
        (cache / "tools" / "go-versions").write_text("go1.97.0\n")
    recording.join(60)
    assert (cache / "tools" / "go-versions").read_text().split() == ["go1.97.0", "go1.98.0"]


def test_a_built_kubectl_is_linked_for_shells(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`trainstack env` adds the folder to PATH."""
    make_builds(go_toolchain._pinned_go().version)
    monkeypatch.setenv("PATH", path_of(make_pulumi(tmp_path / "a", "v3.260.0")))
    tools.engine(tmp_path / "checkout", embedded=False)
    assert (state_root(tmp_path / "checkout") / "bin" / "kubectl").readlink() == tools.program("kubectl")


def test_folders_that_cannot_be_read_are_ignored(tmp_path: Path) -> None:
    """Shells ignore them too."""
    good = make_kubectl(tmp_path / "bin", version("v1.33.1"))
    found = programs_on_path.kubectl(os.pathsep.join(["/" + "x" * 300, "a\nb", str(good), str(good.parent)]))
    assert found.program == programs_on_path.OfficialProgram(good, "v1.33.1")


def test_a_program_in_a_relative_folder_can_be_started_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine runs in the project's folder."""
    good = make_kubectl(tmp_path / "bin", version("v1.33.1"))
    monkeypatch.chdir(tmp_path)
    assert programs_on_path.kubectl("bin").program == programs_on_path.OfficialProgram(good, "v1.33.1")

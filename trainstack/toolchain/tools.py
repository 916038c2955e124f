"""The toolchain's interface.

`ensure()` builds or finds everything and does nothing on later calls; `program("kubelet")` returns a built program's
path; `engine(checkout)` returns Pulumi's engine with the variables of its commands; `kubectl()` returns the kubectl for
clusters. A supported `pulumi` or `kubectl` on PATH takes precedence over a built one.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

from rich.console import Console

from trainstack.toolchain import build, digests, go_toolchain, manifests, programs_on_path, progress
from trainstack.toolchain.build import Builder
from trainstack.toolchain.engine import Engine, prepare_engine, replace_link
from trainstack.toolchain.errors import MissingTool, ToolchainError
from trainstack.toolchain.groups import GROUP_OF_PROGRAM, GROUPS, GROUPS_BY_NAME
from trainstack.toolchain.places import state_root
from trainstack.toolchain.progress import print_line

MANIFESTS_GROUP = "manifests"
"""The group of the operators' release manifests, which kubectl renders from the cluster group's modules."""

ENGINE_GROUPS = ("engine", "provider")
"""The groups that an official Pulumi replaces, which downloads the provider as a plugin."""

KUBECTL_GROUPS = ("kubectl",)
"""The group that an official kubectl replaces, except on the local cluster, and to render manifests unless the bytes
are the pinned ones."""


OPERATORS_GROUP = "cluster"
"""The group with the operators' programs, for their images."""

JUDGE_GROUP = GROUP_OF_PROGRAM["kueue-judge"].name
"""The group of Kueue's scheduler as a program. Without it, verdicts on topologies are unknown."""

SIMULATION_GROUP = GROUP_OF_PROGRAM["kwok"].name
"""The group that simulates nodes of the local cluster."""


def ensure(
    groups: Sequence[str] | None = None,
    console: Console | None = None,
    project: Path | None = None,
    pinned_digests: Collection[str] = (),
) -> None:
    """Build missing tools and verify the digests of existing ones. Runs no `go` if nothing is missing.

    `groups`: names of groups, by default all that this machine needs. `console`: for progress, by default standard
    error. `project`: the folder whose settings refer to the release manifests. `pinned_digests`: those of the
    operators' release manifests; a kubectl on PATH that renders them is used instead of the pinned one.
    """
    console = console or Console(stderr=True, markup=False, emoji=False)
    names = needed_groups() if groups is None else tuple(groups)
    if unknown := sorted(set(names) - {*GROUPS_BY_NAME, MANIFESTS_GROUP}):
        raise ToolchainError(
            f"unknown group {', '.join(unknown)}: the groups are {', '.join([*GROUPS_BY_NAME, MANIFESTS_GROUP])}"
        )
    rendering = MANIFESTS_GROUP in names and not all(map(_is_rendered, manifests.MANIFESTS))
    official_kubectl = programs_on_path.kubectl().program if pinned_digests and "kubectl" not in names else None
    builds_kubectl = rendering and official_kubectl is None
    selected = [
        group for name, group in GROUPS_BY_NAME.items() if name in names or (builds_kubectl and name == "kubectl")
    ]
    folders = {group.name: build.find_build(group) for group in selected}
    missing = [group for group in selected if folders[group.name] is None]
    _report_unsupported(names, {group.name for group in missing}, console)
    if missing or rendering:
        builder = Builder(go_toolchain.ensure(console))
        if len(missing) > 1:
            total = progress.duration(sum(group.seconds for group in missing))
            print_line(
                console,
                f"Building {len(missing)} tool groups: about {total} on 2 cores with empty caches, less if Go's caches "
                "are filled; an interrupted build resumes where it stopped",
            )
        for group in missing:
            builder.build(group, console)
    for folder in filter(None, folders.values()):
        digests.verify(folder)
    if rendering:
        manifests.ensure(builder, console, official_kubectl.path if official_kubectl else None, pinned_digests)
    if MANIFESTS_GROUP in names:
        for manifest in manifests.MANIFESTS:
            digests.verify(manifests.manifest_path(manifest.name).parent)
        if project is not None:
            manifests.link_manifests(project)


def _is_rendered(manifest: manifests.ReleaseManifest) -> bool:
    try:
        return manifests.manifest_path(manifest.name).exists()
    except ToolchainError:
        return False


def _report_unsupported(names: Sequence[str], missing: Collection[str], console: Console) -> None:
    """Report the programs on PATH that cannot be used, and their replacements."""
    for search, replaced in ((programs_on_path.pulumi(), ENGINE_GROUPS), (programs_on_path.kubectl(), KUBECTL_GROUPS)):
        built_groups = [name for name in replaced if name in names]
        if built_groups and search.program is None and search.unsupported is not None:
            seconds = sum(GROUPS_BY_NAME[name].seconds for name in built_groups if name in missing)
            built_instead = f"the pinned one is built instead (about {progress.duration(seconds)})"
            instead = built_instead if seconds else "the pinned one is used instead"
            print_line(console, f"{search.unsupported} is not supported, {search.reason}; {instead}")


def needed_groups(
    *,
    local_cluster: bool = True,
    kind: bool = False,
    kubectl: bool = True,
    releases: bool = True,
    simulation: bool = True,
    judge: bool = True,
) -> tuple[str, ...]:
    """Return the groups that a deployment needs on this machine, without those that official programs replace.

    `kubectl`: whether the deployment exchanges files with pods. `releases`: whether its settings refer to the release
    manifests that are built here. The local cluster needs both, and the pinned kubectl, which renders its manifests.
    `kind`: whether kind runs the local cluster, which then needs only the operators' programs and the judge.
    `simulation`: whether the local cluster simulates nodes. `judge`: whether topologies are declared.
    """
    engine_groups = () if programs_on_path.pulumi().program else ENGINE_GROUPS
    if local_cluster:
        unused = {*ENGINE_GROUPS, *(() if simulation else (SIMULATION_GROUP,)), *(() if judge else (JUDGE_GROUP,))}
        groups = (
            (*KUBECTL_GROUPS, OPERATORS_GROUP, JUDGE_GROUP)
            if kind
            else (group.name for group in GROUPS if not group.for_tests)
        )
        return (*engine_groups, *(name for name in groups if name not in unused), MANIFESTS_GROUP)
    kubectl_groups = KUBECTL_GROUPS if kubectl and not programs_on_path.kubectl().program else ()
    return (*engine_groups, *kubectl_groups, *((MANIFESTS_GROUP,) if releases else ()))


def replacements() -> list[str]:
    """Return the official programs on PATH that are used, with their versions and paths."""
    return [
        str(official_program)
        for official_program in (programs_on_path.pulumi().program, programs_on_path.kubectl().program)
        if official_program is not None
    ]


def program(name: str) -> Path:
    """Return the path of a built program; raise MissingTool if it has not been built."""
    if name not in GROUP_OF_PROGRAM:
        raise ToolchainError(
            f"no group builds a program {name!r}: the programs are {', '.join(sorted(GROUP_OF_PROGRAM))}"
        )
    group = GROUP_OF_PROGRAM[name]
    folder = build.find_build(group)
    if folder is None or not (folder / "bin" / name).exists():
        raise MissingTool(name, group.name)
    return folder / "bin" / name


def kubectl() -> Path:
    """Return the kubectl for clusters: a supported one on PATH, else the built one. Raises MissingTool."""
    official_kubectl = programs_on_path.kubectl().program
    if official_kubectl is not None:
        return official_kubectl.path
    try:
        return program("kubectl")
    except MissingTool:
        raise _missing_tool(
            "kubectl", programs_on_path.kubectl(), programs_on_path.SUPPORTED_KUBECTL, KUBECTL_GROUPS
        ) from None


def engine(checkout: Path, *, embedded: bool) -> Engine:
    """Return a project's Pulumi engine, for an embedded state or for the backend that Pulumi selects.

    A built kubectl is linked into the project's state folder, for the shells of `trainstack env`, unless a supported
    one is on PATH. Raises MissingTool if no engine is on PATH and none has been built.
    """
    _link_kubectl(state_root(checkout) / "bin" / "kubectl")
    official_pulumi = programs_on_path.pulumi().program
    if official_pulumi is not None:
        return prepare_engine(checkout, official_pulumi.path, built_here=False, embedded=embedded)
    try:
        built_pulumi, provider = program("pulumi"), program("pulumi-resource-kubernetes")
    except MissingTool:
        raise _missing_tool(
            "pulumi", programs_on_path.pulumi(), programs_on_path.SUPPORTED_PULUMI, ENGINE_GROUPS
        ) from None
    return prepare_engine(checkout, built_pulumi, built_here=True, embedded=embedded, provider=provider)


def _link_kubectl(path: Path) -> None:
    folder = None if programs_on_path.kubectl().program else build.find_build(GROUP_OF_PROGRAM["kubectl"])
    if folder is None:
        path.unlink(missing_ok=True)
    else:
        replace_link(path, folder / "bin" / "kubectl")


def _missing_tool(
    name: str, search: programs_on_path.PathSearch, supported: programs_on_path.VersionRange, groups: Sequence[str]
) -> MissingTool:
    problem = "is not on PATH, and the pinned one has not been built"
    if search.unsupported is not None:
        problem = f"is not supported, {search.reason}, and the pinned one has not been built"
    seconds = progress.duration(sum(GROUPS_BY_NAME[group].seconds for group in groups))
    return MissingTool(
        name,
        groups[0],
        f"{search.unsupported or name} {problem}",
        f"install {name} {supported}, or build it (about {seconds}): trainstack dev tools {' '.join(groups)}",
    )

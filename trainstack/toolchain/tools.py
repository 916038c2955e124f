"""The toolchain's interface.

`ensure()` builds or finds everything and does nothing on later calls; `program("kubelet")` returns a built program's
path; `engine(checkout)` returns Pulumi's engine with the variables of its commands; `kubectl()` returns the kubectl for
clusters. A supported `pulumi` or `kubectl` on PATH takes precedence over a built one.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

from rich.console import Console

from trainstack.toolchain import build, digests, gotool, manifests, official, progress
from trainstack.toolchain.build import Builder
from trainstack.toolchain.engine import Engine, link, prepare
from trainstack.toolchain.errors import MissingTool, ToolchainError
from trainstack.toolchain.groups import BY_NAME, GROUP_OF, GROUPS
from trainstack.toolchain.places import state_root
from trainstack.toolchain.progress import say

MANIFESTS = "manifests"
"""The group of the operators' release manifests, which kubectl renders from the cluster group's modules."""

ENGINE = ("engine", "provider")
"""The groups that an official Pulumi replaces, which downloads the provider as a plugin."""

KUBECTL = ("kubectl",)
"""The group that an official kubectl replaces, except to render manifests, whose bytes depend on its version."""


OPERATORS = "cluster"
"""The group with the operators' programs, for their images."""

JUDGE = GROUP_OF["kueue-judge"].name
"""The group of Kueue's scheduler as a program. Without it, verdicts on topologies are unknown."""


def ensure(groups: Sequence[str] | None = None, console: Console | None = None, project: Path | None = None) -> None:
    """Build missing tools and verify the digests of existing ones. Runs no `go` if nothing is missing.

    `groups`: names of groups, by default all that this machine needs. `console`: for progress, by default standard
    error. `project`: the folder whose settings refer to the release manifests.
    """
    console = console or Console(stderr=True, markup=False, emoji=False)
    names = needed_groups() if groups is None else tuple(groups)
    if unknown := sorted(set(names) - {*BY_NAME, MANIFESTS}):
        raise ToolchainError(f"unknown group {', '.join(unknown)}: the groups are {', '.join([*BY_NAME, MANIFESTS])}")
    # The manifests are rendered by the pinned kubectl, even if an official one is on PATH.
    rendering = MANIFESTS in names and not all(map(_is_rendered, manifests.MANIFESTS))
    selected = [group for name, group in BY_NAME.items() if name in names or (rendering and name == "kubectl")]
    folders = {group.name: build.find(group) for group in selected}
    missing = [group for group in selected if folders[group.name] is None]
    _say_unsupported(names, {group.name for group in missing}, console)
    if missing or rendering:
        builder = Builder(gotool.ensure(console))
        if len(missing) > 1:
            total = progress.duration(sum(group.seconds for group in missing))
            say(
                console,
                f"Building {len(missing)} tool groups: about {total} on 2 cores with empty caches, less if Go's caches "
                "are filled; an interrupted build resumes where it stopped",
            )
        for group in missing:
            builder.build(group, console)
    for folder in filter(None, folders.values()):
        digests.verify(folder)
    if rendering:
        manifests.ensure(builder, console)
    if MANIFESTS in names:
        for manifest in manifests.MANIFESTS:
            digests.verify(manifests.path(manifest.name).parent)
        if project is not None:
            manifests.link(project)


def _is_rendered(manifest: manifests.Manifest) -> bool:
    try:
        return manifests.path(manifest.name).exists()
    except ToolchainError:
        return False


def _say_unsupported(names: Sequence[str], missing: Collection[str], console: Console) -> None:
    """Report the programs on PATH that cannot be used, and their replacements."""
    for search, replaced in ((official.pulumi(), ENGINE), (official.kubectl(), KUBECTL)):
        own = [name for name in replaced if name in names]
        if own and search.program is None and search.unsupported is not None:
            seconds = sum(BY_NAME[name].seconds for name in own if name in missing)
            built = f"the pinned one is built instead (about {progress.duration(seconds)})"
            instead = built if seconds else "the pinned one is used instead"
            say(console, f"{search.unsupported} is not supported, {search.reason}; {instead}")


def needed_groups(
    *, local_cluster: bool = True, kind: bool = False, kubectl: bool = True, releases: bool = True
) -> tuple[str, ...]:
    """Return the groups that a deployment needs on this machine, without those that official programs replace.

    `kubectl`: whether the deployment exchanges files with pods. `releases`: whether its settings refer to the release
    manifests that are built here. The local cluster needs both, and the pinned kubectl, which renders its manifests.
    `kind`: whether kind runs the local cluster, which then needs only the operators' programs and the judge.
    """
    engine = () if official.pulumi().program else ENGINE
    if local_cluster and kind:
        return (*engine, *KUBECTL, OPERATORS, JUDGE, MANIFESTS)
    if local_cluster:
        others = (group.name for group in GROUPS if group.name not in ENGINE and not group.for_tests)
        return (*engine, *others, MANIFESTS)
    own = KUBECTL if kubectl and not official.kubectl().program else ()
    return (*engine, *own, *((MANIFESTS,) if releases else ()))


def replacements() -> list[str]:
    """Return the official programs on PATH that are used, with their versions and paths."""
    return [str(found) for found in (official.pulumi().program, official.kubectl().program) if found is not None]


def program(name: str) -> Path:
    """Return the path of a built program; raise MissingTool if it has not been built."""
    if name not in GROUP_OF:
        raise ToolchainError(f"no group builds a program {name!r}: the programs are {', '.join(sorted(GROUP_OF))}")
    group = GROUP_OF[name]
    folder = build.find(group)
    if folder is None or not (folder / "bin" / name).exists():
        raise MissingTool(name, group.name)
    return folder / "bin" / name


def kubectl() -> Path:
    """Return the kubectl for clusters: a supported one on PATH, else the built one. Raises MissingTool."""
    found = official.kubectl().program
    if found is not None:
        return found.path
    try:
        return program("kubectl")
    except MissingTool:
        raise _missing("kubectl", official.kubectl(), official.KUBECTL, KUBECTL) from None


def engine(checkout: Path, *, embedded: bool) -> Engine:
    """Return a project's Pulumi engine, for an embedded state or for the backend that Pulumi selects.

    A built kubectl is linked into the project's state folder, for the shells of `trainstack env`, unless a supported
    one is on PATH. Raises MissingTool if no engine is on PATH and none has been built.
    """
    _link_kubectl(state_root(checkout) / "bin" / "kubectl")
    found = official.pulumi().program
    if found is not None:
        return prepare(checkout, found.path, own=False, embedded=embedded)
    try:
        built, provider = program("pulumi"), program("pulumi-resource-kubernetes")
    except MissingTool:
        raise _missing("pulumi", official.pulumi(), official.PULUMI, ENGINE) from None
    return prepare(checkout, built, own=True, embedded=embedded, provider=provider)


def _link_kubectl(place: Path) -> None:
    folder = None if official.kubectl().program else build.find(GROUP_OF["kubectl"])
    if folder is None:
        place.unlink(missing_ok=True)
    else:
        link(place, folder / "bin" / "kubectl")


def _missing(name: str, search: official.Search, needed: official.Range, groups: Sequence[str]) -> MissingTool:
    problem = "is not on PATH, and the pinned one has not been built"
    if search.unsupported is not None:
        problem = f"is not supported, {search.reason}, and the pinned one has not been built"
    seconds = progress.duration(sum(BY_NAME[group].seconds for group in groups))
    return MissingTool(
        name,
        groups[0],
        f"{search.unsupported or name} {problem}",
        f"install {name} {needed}, or build it (about {seconds}): trainstack dev tools {' '.join(groups)}",
    )

"""The toolchain's interface.

`ensure()` builds or finds everything and is a no-op once that is done; `program("kubelet")` names a built program;
`engine(checkout)` gives Pulumi's engine with the environment that its commands need.
"""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from trainstack.dev.toolchain import digests, gotool, manifests, official, progress
from trainstack.dev.toolchain.build import Builder
from trainstack.dev.toolchain.engine import Engine, link, prepare
from trainstack.dev.toolchain.errors import MissingTool, ToolchainError
from trainstack.dev.toolchain.groups import BY_NAME, GROUP_OF, GROUPS
from trainstack.dev.toolchain.places import CHECKOUT, cache_root, state_root
from trainstack.dev.toolchain.progress import say

__all__ = ["MANIFESTS", "Engine", "MissingTool", "ToolchainError", "cache_root", "engine", "ensure", "program"]

MANIFESTS = "manifests"
"""The group of the operators' release manifests: made by kubectl from the cluster group's modules."""

CLIENT = ("engine", "provider", "kubectl", MANIFESTS)
"""What deploying to any cluster needs; the other groups are the local cluster."""

ENGINE_GROUPS = frozenset({"engine", "provider"})
"""What an official Pulumi brings itself: the engine as it is, the provider by its own plugin download."""


def ensure(groups: Sequence[str] | None = None, console: Console | None = None) -> None:
    """Build or find tools. What is there already is held against the digests that it had when it was built.

    Args:
        groups: names of groups; by default all that this machine needs.
        console: where progress is shown; standard error by default.

    Raises:
        ToolchainError: a group is unknown or cannot be built, or a built program is not what it was.
    """
    console = console or Console(stderr=True, markup=False, emoji=False)
    wanted = needed_groups() if groups is None else tuple(groups)
    if unknown := sorted(set(wanted) - {*BY_NAME, MANIFESTS}):
        raise ToolchainError(f"unknown group {', '.join(unknown)}: the groups are {', '.join([*BY_NAME, MANIFESTS])}")
    builder = Builder(gotool.choose())
    missing = [BY_NAME[name] for name in wanted if name != MANIFESTS and not builder.is_built(BY_NAME[name])]
    if missing:
        builder = Builder(gotool.ensure(console))
        if len(missing) > 1:
            seconds = progress.duration(sum(group.seconds for group in missing))
            say(
                console,
                f"Building {len(missing)} groups of tools: {seconds} on 2 cores with empty caches, less with full "
                "ones; an interrupted build goes on where it stopped",
            )
        for group in missing:
            builder.build(group, console)
    for group in (BY_NAME[name] for name in wanted if name != MANIFESTS):
        if group not in missing:
            digests.verify(builder.folder(group))
    if MANIFESTS in wanted:
        manifests.ensure(builder, console)
        manifests.link(CHECKOUT)


def needed_groups(*, local_cluster: bool = True) -> tuple[str, ...]:
    """The groups that this machine needs, less what an official Pulumi on PATH brings.

    Args:
        local_cluster: whether the local cluster is to run here, and not only the engine against another one.
    """
    brought = ENGINE_GROUPS if official.find() else frozenset()
    wanted = (*(group.name for group in GROUPS if not group.for_tests), MANIFESTS) if local_cluster else CLIENT
    return tuple(name for name in wanted if name not in brought)


def program(name: str) -> Path:
    """A built program of this checkout's pinned versions.

    Raises:
        MissingTool: it has not been built.
        ToolchainError: no group holds a program of that name.
    """
    if name not in GROUP_OF:
        raise ToolchainError(f"no group holds a program {name!r}: the programs are {', '.join(sorted(GROUP_OF))}")
    group = GROUP_OF[name]
    path = Builder(gotool.choose()).folder(group) / "bin" / name
    if not path.exists():
        raise MissingTool(name, group.name)
    return path


def engine(checkout: Path = CHECKOUT) -> Engine:
    """The Pulumi engine for a checkout, with the environment that its commands need.

    Raises:
        MissingTool: kubectl has not been built, or there is no official engine and ours has not been built.
    """
    link(state_root(checkout) / "bin" / "kubectl", program("kubectl"))
    found = official.find()
    if found is not None:
        return prepare(checkout, found, own=False)
    return prepare(checkout, program("pulumi"), own=True, provider=program("pulumi-resource-kubernetes"))

"""The toolchain's interface.

`ensure()` builds or finds everything and does nothing on later calls; `program("kubelet")` returns a built program's
path; `engine(checkout)` returns Pulumi's engine with the environment of its commands.
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
"""The group of the operators' release manifests, which kubectl renders from the cluster group's modules."""

CLIENT = ("engine", "provider", "kubectl", MANIFESTS)
"""The groups that a deployment to any cluster needs; the others are for the local cluster."""

ENGINE_GROUPS = frozenset({"engine", "provider"})
"""The groups that an official Pulumi replaces: it downloads the provider as a plugin."""


def ensure(groups: Sequence[str] | None = None, console: Console | None = None) -> None:
    """Build missing tools and verify the digests of existing ones.

    `groups`: names of groups, by default all that this machine needs. `console`: for progress, by default standard
    error.
    """
    console = console or Console(stderr=True, markup=False, emoji=False)
    names = needed_groups() if groups is None else tuple(groups)
    if unknown := sorted(set(names) - {*BY_NAME, MANIFESTS}):
        raise ToolchainError(f"unknown group {', '.join(unknown)}: the groups are {', '.join([*BY_NAME, MANIFESTS])}")
    builder = Builder(gotool.choose())
    selected = [BY_NAME[name] for name in names if name != MANIFESTS]
    missing = [group for group in selected if not builder.is_built(group)]
    if missing:
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
    for group in selected:
        if group not in missing:
            digests.verify(builder.folder(group))
    if MANIFESTS in names:
        manifests.ensure(builder, console)
        manifests.link(CHECKOUT)


def needed_groups(*, local_cluster: bool = True) -> tuple[str, ...]:
    """Return the groups that this machine needs, without those that an official Pulumi on PATH replaces."""
    replaced = ENGINE_GROUPS if official.find() else frozenset()
    names = (*(group.name for group in GROUPS if not group.for_tests), MANIFESTS) if local_cluster else CLIENT
    return tuple(name for name in names if name not in replaced)


def program(name: str) -> Path:
    """Return the path of a built program; raise MissingTool if it has not been built."""
    if name not in GROUP_OF:
        raise ToolchainError(f"no group builds a program {name!r}: the programs are {', '.join(sorted(GROUP_OF))}")
    group = GROUP_OF[name]
    path = Builder(gotool.choose()).folder(group) / "bin" / name
    if not path.exists():
        raise MissingTool(name, group.name)
    return path


def engine(checkout: Path = CHECKOUT, *, embedded: bool = False) -> Engine:
    """Return a checkout's Pulumi engine, for an embedded state or for the backend that Pulumi selects.

    Raises MissingTool if kubectl or the engine has not been built.
    """
    link(state_root(checkout) / "bin" / "kubectl", program("kubectl"))
    found = official.find()
    if found is not None:
        return prepare(checkout, found, own=False, embedded=embedded)
    provider = program("pulumi-resource-kubernetes")
    return prepare(checkout, program("pulumi"), own=True, embedded=embedded, provider=provider)

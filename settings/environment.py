"""Section `trainstack:environment`: whose stack this is and which half of the house it declares."""

from typing import Literal

from pydantic import Field

from settings.base import DnsLabel, DnsName, Labels, Section


class Namespace(Section):
    """A namespace that the stack creates, or with `adopt` takes over."""

    name: DnsLabel
    labels: Labels = Field(default_factory=dict)
    """Beside these it enforces, warns and audits by the Pod Security level `restricted`, unless they say otherwise
    (`pod-security.kubernetes.io/enforce: baseline`); one that is adopted keeps the level that it has."""
    adopt: bool = False


class Existing(Section):
    """What the cluster has by others' hands: names to refer to, of things that this stack neither makes nor changes."""

    namespaces: tuple[DnsLabel, ...] = ()
    storage_classes: tuple[DnsName, ...] = ()


class Environment(Section):
    """Who deploys, and what the stack holds."""

    profile: Literal["owner", "tenant"] = "owner"
    """`owner` may declare cluster-wide objects; `tenant` has rights in its namespaces only."""
    halves: tuple[Literal["platform", "training"], ...] = ("platform", "training")
    """`platform`: namespaces, classes, queues, operators. `training`: volumes, runs. Both in one stack by default."""
    platform: str | None = None
    """For a stack of the training half alone: the platform's stack, as a Pulumi stack reference
    (`organization/trainstack/dev-platform`), whose outputs say which queues there are: a run in another is refused."""
    namespaces: tuple[Namespace, ...] = ()
    existing: Existing = Existing()
    """Namespaces and classes that are there already."""
    pinned: bool = False
    """Refuse an image that is known by a tag alone: each needs a digest, its own or that of `pins/<environment>.yaml`,
    which `trainstack pin` writes."""

"""Section `trainstack:environment`: whose stack this is and which half of the house it declares."""

import re
from ipaddress import ip_network
from typing import Literal

from pydantic import Field, field_validator, model_validator

from trainstack.settings.base import DnsLabel, DnsName, Section
from trainstack.settings.values.kubernetes import Labels, Port, unknown_word

_POD_SECURITY = "pod-security.kubernetes.io/"
_MODES = ("enforce", "warn", "audit")
_LEVELS = ("privileged", "baseline", "restricted")
_VERSION = re.compile(r"latest|v1\.(0|[1-9][0-9]*)")
_PREFIX_LENGTH = re.compile(r"/[0-9]{1,3}$")


class Egress(Section):
    """Something that the pods of an isolated namespace may connect to."""

    cidr: str | None = None
    """Addresses, such as `203.0.113.0/24`: a NetworkPolicy knows no names of hosts."""
    namespace: DnsLabel | None = None
    """All pods of a namespace."""
    ports: tuple[Port, ...] = ()
    """TCP; none given: all ports of all protocols."""

    @field_validator("cidr")
    @classmethod
    def _is_block(cls, text: str | None) -> str | None:
        if text is not None:
            try:
                ip_network(text)
            except ValueError as error:
                raise ValueError(f"is no block of addresses: {error}; write one such as 203.0.113.0/24") from None
            if not _PREFIX_LENGTH.search(text):
                raise ValueError(f"{text} has no prefix length; write one such as 203.0.113.0/24")
        return text

    @model_validator(mode="after")
    def _one_place(self) -> "Egress":
        if (self.cidr is None) == (self.namespace is None):
            raise ValueError("connections lead to one place: give either cidr or namespace")
        return self


class NamespaceNetwork(Section):
    """What reaches the pods of a namespace, and what they reach."""

    isolated: bool | None = None
    """Pods of runs reach each other, DNS, and what `egress` names; nothing else reaches them. None: so in a namespace
    that the stack creates; in one that is adopted stand others' pods. It is the cluster's network that holds them to
    it: some networks, the local cluster's among them, know no policies."""
    egress: tuple[Egress, ...] = ()
    """Where else they may connect to: a git server, an object store, a registry of data."""


class Namespace(Section):
    """A namespace that the stack creates, or with `adopt` takes over."""

    name: DnsLabel
    labels: Labels = Field(default_factory=dict)
    """Beside these it enforces, warns and audits by the Pod Security level `restricted`, unless they say otherwise
    (`pod-security.kubernetes.io/enforce: baseline`); one that is adopted keeps the level that it has."""
    adopt: bool = False
    network: NamespaceNetwork = NamespaceNetwork()

    @field_validator("labels")
    @classmethod
    def _pod_security(cls, labels: dict[str, str]) -> dict[str, str]:
        """Source: PolicyToEvaluate of k8s.io/pod-security-admission/api."""
        for mode in _MODES:
            level = labels.get(f"{_POD_SECURITY}{mode}")
            if level is not None and level not in _LEVELS:
                raise ValueError(f"{_POD_SECURITY}{mode} has an unknown level: {unknown_word(level, _LEVELS)}")
            version = labels.get(f"{_POD_SECURITY}{mode}-version")
            if version is not None and not _VERSION.fullmatch(version):
                raise ValueError(f"{_POD_SECURITY}{mode}-version is {version!r}; write latest, or one such as v1.34")
        return labels

    @property
    def isolated(self) -> bool:
        """Whether policies of ours stand in it."""
        return not self.adopt if self.network.isolated is None else self.network.isolated

    @model_validator(mode="after")
    def _nothing_to_let_out_of(self) -> "Namespace":
        if self.network.egress and not self.isolated:
            raise ValueError("network.egress names exceptions, and nothing is forbidden: add network.isolated: true")
        return self


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
    platform: str | None = Field(None, pattern=r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$")
    """For a stack of the training half alone: the platform's stack, as a Pulumi stack reference
    (`organization/trainstack/dev-platform`), whose outputs say which queues there are: a run in another is refused."""
    namespaces: tuple[Namespace, ...] = ()
    existing: Existing = Existing()
    """Namespaces and classes that are there already."""
    pinned: bool = False
    """Refuse an image that is known by a tag alone: each needs a digest, its own or that of `pins/<environment>.yaml`,
    which `trainstack pin` writes."""

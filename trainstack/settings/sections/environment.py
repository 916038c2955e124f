"""Section `trainstack:environment`: the stack's owner, its parts and its namespaces."""

import re
from ipaddress import ip_network
from typing import Literal

from pydantic import Field, field_validator, model_validator

from trainstack.settings.base import Section
from trainstack.settings.sections.storage import AccessModes
from trainstack.settings.values.kubernetes import DnsLabel, DnsName, Labels, Port, unknown_word_message

Layer = Literal["platform", "training"]

_POD_SECURITY = "pod-security.kubernetes.io/"
_MODES = ("enforce", "warn", "audit")
_LEVELS = ("privileged", "baseline", "restricted")
_VERSION = re.compile(r"latest|v1\.(0|[1-9][0-9]*)")
_PREFIX_LENGTH = re.compile(r"/[0-9]{1,3}$")


class Egress(Section):
    """A destination that the pods of an isolated namespace may connect to."""

    cidr: str | None = None
    """A CIDR block, such as `203.0.113.0/24`; NetworkPolicies do not support host names."""
    namespace: DnsLabel | None = None
    """All pods of a namespace."""
    ports: tuple[Port, ...] = ()
    """TCP ports; empty: all ports of all protocols."""

    @field_validator("cidr")
    @classmethod
    def _check_cidr(cls, text: str | None) -> str | None:
        if text is not None:
            try:
                ip_network(text)
            except ValueError as error:
                raise ValueError(f"is not a CIDR block: {error}; write one such as 203.0.113.0/24") from None
            if not _PREFIX_LENGTH.search(text):
                raise ValueError(f"{text} has no prefix length; write one such as 203.0.113.0/24")
        return text

    @model_validator(mode="after")
    def _check_destination(self) -> "Egress":
        if (self.cidr is None) == (self.namespace is None):
            raise ValueError("egress needs exactly one destination: set either cidr or namespace")
        return self


class NamespaceNetwork(Section):
    """Which connections from and to the pods of a namespace are allowed."""

    isolated: bool | None = None
    """Allow the pods of runs to connect only to each other, DNS and `egress`, and allow no other connections to them.
    None: true for a namespace that the stack creates, false for an adopted one, which may have other pods. The
    cluster's network plugin enforces it; some plugins, such as the local cluster's, do not support policies."""
    egress: tuple[Egress, ...] = ()
    """Further destinations, such as a git server or an object store."""


class Namespace(Section):
    """A namespace that the stack creates, or adopts."""

    name: DnsLabel
    labels: Labels = Field(default_factory=dict)
    """By default the namespace also enforces, warns and audits the Pod Security level `restricted`; labels such as
    `pod-security.kubernetes.io/enforce: baseline` change the level. An adopted namespace keeps its level."""
    adopt: bool = False
    network: NamespaceNetwork = NamespaceNetwork()

    @field_validator("labels")
    @classmethod
    def _check_pod_security(cls, labels: dict[str, str]) -> dict[str, str]:
        """Source: PolicyToEvaluate of k8s.io/pod-security-admission/api."""
        for mode in _MODES:
            level = labels.get(f"{_POD_SECURITY}{mode}")
            if level is not None and level not in _LEVELS:
                raise ValueError(f"{_POD_SECURITY}{mode} has an unknown level: {unknown_word_message(level, _LEVELS)}")
            version = labels.get(f"{_POD_SECURITY}{mode}-version")
            if version is not None and not _VERSION.fullmatch(version):
                raise ValueError(
                    f"{_POD_SECURITY}{mode}-version is {version!r}; write latest, or a version such as v1.34"
                )
        return labels

    @property
    def is_isolated(self) -> bool:
        """Whether the stack declares NetworkPolicies in the namespace."""
        return not self.adopt if self.network.isolated is None else self.network.isolated

    @model_validator(mode="after")
    def _check_egress(self) -> "Namespace":
        if self.network.egress and not self.is_isolated:
            raise ValueError("network.egress requires an isolated namespace: add network.isolated: true")
        return self


class ExistingVolume(Section):
    """A PersistentVolumeClaim that somebody else has created."""

    name: DnsLabel
    namespace: DnsLabel
    access_modes: AccessModes | None = None
    """None: those of the claim in the cluster; unknown where the cluster is not read."""


class Existing(Section):
    """Objects of the cluster that this stack refers to, but neither creates nor changes."""

    namespaces: tuple[DnsLabel, ...] = ()
    storage_classes: tuple[DnsName, ...] = ()
    volumes: tuple[ExistingVolume, ...] = ()
    """Claims that runs mount. Their files can be listed, uploaded and fetched."""


class Environment(Section):
    """The stack's owner, its parts and its namespaces."""

    profile: Literal["owner", "tenant"] = "owner"
    """`owner` may declare cluster-scoped objects; `tenant` has rights in its namespaces only."""
    layers: tuple[Layer, ...] = ("platform", "training")
    """`platform`: namespaces, classes, queues, operators. `training`: volumes, runs. Both in one stack by default."""
    state: Literal["embedded", "pulumi"] = "pulumi"
    """Where the engine's state is. `pulumi`: in the backend that Pulumi selects, by PULUMI_BACKEND_URL, `backend` in
    `Pulumi.yaml`, or `pulumi login`. `embedded`: in a folder of this checkout, encrypted with a published passphrase;
    only for environments without secrets."""
    platform: str | None = Field(None, pattern=r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$")
    """For a stack with only the training part: the platform's stack, as a Pulumi stack reference
    (`organization/trainstack/dev-platform`). Its outputs list the queues; runs in other queues are refused."""
    namespaces: tuple[Namespace, ...] = ()
    existing: Existing = Existing()
    """Namespaces, StorageClasses and claims that exist already."""
    pinned: bool = False
    """Refuse images without a digest in the reference or, by `trainstack pin`, in `pins/<environment>.yaml`."""

"""The affinity of a run's pods, as named by Kubernetes' API.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/, and validateAffinity in
k8s.io/kubernetes/pkg/apis/core/validation
"""

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from trainstack.settings.base import Section, raise_faults
from trainstack.settings.values.kubernetes import DnsLabel, LabelKey, Labels, LabelValue
from trainstack.settings.values.quantities import MAX_AMOUNT

Weight = Annotated[int, Field(ge=1, le=100)]
_INTEGER = re.compile(r"[+-]?[0-9]+")


def _is_integer(text: str) -> bool:
    return bool(_INTEGER.fullmatch(text)) and abs(int(text)) <= MAX_AMOUNT


def _faults_of_values(operator: str, values: tuple[str, ...]) -> Iterator[str]:
    if operator in ("In", "NotIn") and not values:
        yield f"operator {operator} needs values: add values"
    if operator in ("Exists", "DoesNotExist") and values:
        yield f"operator {operator} takes no values (got {', '.join(values)}): leave out values, or write In"
    if operator in ("Gt", "Lt") and not (len(values) == 1 and _is_integer(values[0])):
        yield f"operator {operator} compares with one integer of at most 64 bits: write one number in quotes"


class LabelRequirement(Section):
    """A requirement on a label of pods or namespaces."""

    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[LabelValue, ...] = ()

    @model_validator(mode="after")
    def _check_consistency(self) -> "LabelRequirement":
        raise_faults(_faults_of_values(self.operator, self.values))
        return self


class LabelSelector(Section):
    """A selector of pods or namespaces by their labels; an empty one selects all."""

    match_labels: Labels = Field(default_factory=dict)
    match_expressions: tuple[LabelRequirement, ...] = ()


class NodeRequirement(Section):
    """A requirement on a label of nodes."""

    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[LabelValue, ...] = ()

    @model_validator(mode="after")
    def _check_consistency(self) -> "NodeRequirement":
        raise_faults(_faults_of_values(self.operator, self.values))
        return self


class NodeField(Section):
    """A requirement on the name of a node. Kueue ignores it when it assigns flavors."""

    key: Literal["metadata.name"]
    operator: Literal["In", "NotIn"]
    values: tuple[LabelValue, ...] = Field(min_length=1, max_length=1)


class NodeTerm(Section):
    """Requirements that a node meets, all of them."""

    match_expressions: tuple[NodeRequirement, ...] = ()
    match_fields: tuple[NodeField, ...] = ()

    @model_validator(mode="after")
    def _check_not_empty(self) -> "NodeTerm":
        if not self.match_expressions and not self.match_fields:
            raise ValueError("an empty term matches no node: add matchExpressions")
        return self


class NodeSelector(Section):
    """Terms of which a node meets at least one."""

    node_selector_terms: tuple[NodeTerm, ...] = Field(min_length=1)


class PreferredNodes(Section):
    """A preference of nodes."""

    weight: Weight
    preference: NodeTerm


class NodeAffinity(Section):
    """The nodes on which pods run."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    """Kueue assigns only flavors whose labels meet it."""
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodes, ...] = ()


class PodTerm(Section):
    """Pods, and the label of nodes by whose values nodes are grouped."""

    label_selector: LabelSelector | None = None
    """None: no pods."""
    topology_key: LabelKey
    namespaces: tuple[DnsLabel, ...] = ()
    namespace_selector: LabelSelector | None = None
    """Without it and `namespaces`, the run's namespace."""


class PreferredPods(Section):
    """A preference of pods."""

    weight: Weight
    pod_affinity_term: PodTerm


class PodAffinity(Section):
    """The pods near which, or away from which, pods run."""

    required_during_scheduling_ignored_during_execution: tuple[PodTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredPods, ...] = ()


class Affinity(Section):
    """Constraints on the nodes of a run's pods, for the scheduler."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None

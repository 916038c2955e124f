"""The topology request of a workload's pods, as named by Kueue's API.

Source: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/ (PodSetTopologyRequest)
"""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field, model_validator

from trainstack.settings.base import Section, raise_faults
from trainstack.settings.values.kubernetes import LabelKey, Positive

FIELDS_BY_ANNOTATION: Mapping[str, str] = {
    "kueue.x-k8s.io/podset-required-topology": "required",
    "kueue.x-k8s.io/podset-preferred-topology": "preferred",
    "kueue.x-k8s.io/podset-unconstrained-topology": "unconstrained",
    "kueue.x-k8s.io/podset-slice-required-topology": "pod_set_slice_required_topology",
    "kueue.x-k8s.io/podset-slice-size": "pod_set_slice_size",
    "kueue.x-k8s.io/podset-group-name": "pod_set_group_name",
}
"""The fields of a request, by the pods' annotations from which Kueue reads them."""


class TopologyRequest(Section):
    """At which level of the flavor's Topology Kueue places the pods of a pod set together.

    Levels are labels of nodes, such as `cloud.provider.com/topology-rack`. Set one of `required`, `preferred` and
    `unconstrained`, or slices, or both.
    """

    required: LabelKey | None = None
    """All pods are placed in one domain of this level; otherwise the workload is not admitted."""
    preferred: LabelKey | None = None
    """The pods are placed in one domain of this level if possible, otherwise in as few as possible."""
    unconstrained: bool = False
    """The pods are placed on any nodes of the Topology that have room."""
    pod_set_slice_required_topology: LabelKey | None = None
    """The level at which the pods of each slice are placed in one domain."""
    pod_set_slice_size: Positive | None = None
    """Pods of each slice; the last slice may have fewer. At most the number of pods."""
    pod_set_group_name: str | None = Field(None, min_length=1, max_length=256)
    """A group of two pod sets, one of them with one pod, such as a master and its workers: they get one flavor and are
    placed together. Not a number."""

    @model_validator(mode="after")
    def _check_consistency(self) -> "TopologyRequest":
        raise_faults(_faults_of_request(self))
        return self

    @property
    def annotations(self) -> dict[str, str]:
        """The pods' annotations for the request."""
        values = {key: getattr(self, field) for key, field in FIELDS_BY_ANNOTATION.items()}
        return {key: "true" if value is True else str(value) for key, value in values.items() if value}


def _faults_of_request(request: TopologyRequest) -> Iterator[str]:
    """Source: ValidateTASPodSetRequest in Kueue's pkg/controller/jobframework/tas_validation.go."""
    modes = [name for name in ("required", "preferred", "unconstrained") if getattr(request, name)]
    slices = (request.pod_set_slice_required_topology, request.pod_set_slice_size)
    if len(modes) > 1:
        yield f"{' and '.join(modes)} exclude each other: set one of them"
    if not modes and slices == (None, None):
        yield "the request names no level: set required, preferred or unconstrained"
    if (slices[0] is None) != (slices[1] is None):
        yield "podSetSliceRequiredTopology and podSetSliceSize belong together: set both"
    if request.pod_set_group_name is not None:
        if request.pod_set_group_name.isdecimal():
            yield "podSetGroupName is a number, which Kueue refuses: use a name"
        if slices != (None, None):
            yield "a pod set of a group has no slices: leave out podSetGroupName, or the slices"
        if request.required is None and request.preferred is None:
            yield "podSetGroupName needs a level: set required or preferred"


def faults_of_pod_sets(pod_sets: Sequence[tuple[str, int, TopologyRequest | None]]) -> Iterator[str]:
    """Yield what Kueue refuses in the requests of a workload's pod sets, which are names, counts of pods, and requests.

    Source: ValidateSliceSizeAnnotationUpperBound and ValidatePodSetGroupingTopology, in the same file.
    """
    groups: dict[str, list[tuple[str, int, TopologyRequest]]] = {}
    for name, count, request in pod_sets:
        if request is None:
            continue
        if request.pod_set_slice_size is not None and request.pod_set_slice_size > count:
            yield f"podSetSliceSize is {request.pod_set_slice_size}, but {name} has {count} pods: lower it"
        if request.pod_set_group_name is not None:
            groups.setdefault(request.pod_set_group_name, []).append((name, count, request))
    for group, members in groups.items():
        names = " and ".join(name for name, _, _ in members)
        if len(members) != 2:
            yield f"group {group} has {len(members)} pod sets ({names}): a group has exactly two"
            continue
        (_, first_count, first_request), (_, second_count, second_request) = members
        if 1 not in (first_count, second_count):
            yield (
                f"group {group} has {first_count} and {second_count} pods ({names}): one of its pod sets must have one "
                "pod"
            )
        if (first_request.required, first_request.preferred) != (second_request.required, second_request.preferred):
            yield f"the pod sets of group {group} ({names}) request different levels: use one level"

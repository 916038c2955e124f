"""ResourceQuotas of a namespace, and what the API server refuses because of them.

Source: the plugin resourcequota of k8s.io/apiserver, and pkg/quota/v1/evaluator/core of k8s.io/kubernetes v1.36.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainstack.kueue.limit_ranger import amounts_at_creation, container_amounts_at_creation, whole_pod_amounts
from trainstack.kueue.model import LimitRange, Requirement
from trainstack.kueue.node_affinity import matches
from trainstack.kueue.pod_requests import Billionths
from trainstack.kueue.quantities import WHOLE, resources_to_billionths
from trainstack.settings.values.kubernetes import is_extended_resource

Body = Mapping[str, Any]
_REQUESTS, _LIMITS = "requests.", "limits."
_HUGE_PAGES = "hugepages-"
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_PODS = frozenset(
    ("pods", "count/pods", *_STANDARD, *(f"{kind}{name}" for kind in (_REQUESTS, _LIMITS) for name in _STANDARD))
)
_REQUIRED = frozenset(("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"))
"""The resources that each container must set if a quota of pods limits them."""
_CLASS_SUFFIX = ".storageclass.storage.k8s.io/"
_CLAIMS = ("persistentvolumeclaims", "requests.storage")
_PRIORITY_CLASS, _ATTRIBUTES_CLASS = "PriorityClass", "VolumeAttributesClass"


@dataclass(frozen=True, slots=True)
class QuotaOfNamespace:
    """A ResourceQuota. Amounts are in billionths."""

    name: str
    hard: Mapping[str, int]
    used: Mapping[str, int]
    scopes: tuple[Requirement, ...]
    """What an object must match; the key is the scope's name."""

    @property
    def selects_priority_class(self) -> bool:
        return any(scope.key == _PRIORITY_CLASS for scope in self.scopes)

    def exceeded_resources(self, usage: Mapping[str, int], *, used: Mapping[str, int] | None = None) -> list[str]:
        """Return the resources of which a usage, in addition to `used`, exceeds the quota."""
        return sorted(
            name
            for name, number in usage.items()
            if number and name in self.hard and (used or {}).get(name, 0) + number > self.hard[name]
        )


@dataclass(frozen=True, slots=True)
class PodAtCreation:
    """What ResourceQuotas depend on of a pod, as the API server creates it."""

    usage: Mapping[str, int]
    """By resource of a quota, in billionths."""
    unset: Mapping[str, tuple[str, ...]]
    """The containers that do not set a resource which a quota requires to be set."""
    scopes: Mapping[str, bool]
    """Whether the pod matches, by scope."""
    priority_class: str

    def matches(self, quota: QuotaOfNamespace) -> bool:
        """Whether the quota limits something of pods, and all its scopes match."""
        labels = {_PRIORITY_CLASS: self.priority_class} if self.priority_class else {}
        return any(map(_is_of_pods, quota.hard)) and all(
            matches(scope, labels) if scope.key == _PRIORITY_CLASS else self.scopes.get(scope.key, False)
            for scope in quota.scopes
        )


def read_quota(body: Body) -> QuotaOfNamespace:
    spec, status = body.get("spec") or {}, body.get("status") or {}
    names: Sequence[str] = spec.get("scopes") or ()
    expressions: Sequence[Body] = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return QuotaOfNamespace(
        name=body["metadata"]["name"],
        # Until its controller has written the status, the API server does not apply the quota.
        hard=resources_to_billionths(status.get("hard") or spec.get("hard")),
        used=resources_to_billionths(status.get("used")),
        scopes=(
            *(Requirement(name, "Exists", ()) for name in names),
            *(
                Requirement(item["scopeName"], item["operator"], tuple(item.get("values") or ()))
                for item in expressions
            ),
        ),
    )


def pod_at_creation(
    spec: Body, limits: Sequence[LimitRange], overheads: Mapping[str, Mapping[str, str]], default_priority_class: str
) -> PodAtCreation:
    """Return a pod as it is created in a namespace with these LimitRanges.

    `overheads`: by RuntimeClass. `default_priority_class`: the one with `globalDefault`; empty: there is none.
    """
    pod_requests, pod_limits = amounts_at_creation(spec, limits)
    requests, bounds = Counter(pod_requests), dict(pod_limits)
    class_overhead = overheads.get(spec.get("runtimeClassName") or "", {})
    for name, number in resources_to_billionths(spec.get("overhead") or class_overhead).items():
        requests[name] += number
        if bounds.get(name):
            bounds[name] += number
    is_best_effort = _is_best_effort(spec, limits)
    return PodAtCreation(
        usage={"pods": WHOLE, "count/pods": WHOLE, **_pod_usage(requests, bounds)},
        unset={} if any(whole_pod_amounts(spec)) else _unset_resources(spec, limits),
        scopes={
            "Terminating": spec.get("activeDeadlineSeconds") is not None,
            "NotTerminating": spec.get("activeDeadlineSeconds") is None,
            "BestEffort": is_best_effort,
            "NotBestEffort": not is_best_effort,
            "CrossNamespacePodAffinity": any(map(_crosses_namespaces, _pod_affinity_terms(spec))),
        },
        priority_class=spec.get("priorityClassName") or default_priority_class,
    )


def claim_usage(storage_class: str | None, size: str) -> Billionths:
    """Return what a volume claim uses, in billionths; its size is rounded up to bytes.

    Without a class, what the cluster's default class adds is unknown, and left out.
    """
    storage = -(-resources_to_billionths({"storage": size})["storage"] // WHOLE) * WHOLE
    usage = {"persistentvolumeclaims": WHOLE, "requests.storage": storage}
    names = usage if storage_class else ()
    of_class = {f"{storage_class}{_CLASS_SUFFIX}{name}": usage[name] for name in names}
    return {"count/persistentvolumeclaims": WHOLE, **usage, **of_class}


def claim_matches(quota: QuotaOfNamespace) -> bool:
    """Whether a quota applies to volume claims without a VolumeAttributesClass."""
    is_of_claims = any(
        name == "count/persistentvolumeclaims" or name.rpartition(_CLASS_SUFFIX)[2] in _CLAIMS for name in quota.hard
    )
    return is_of_claims and all(scope.key == _ATTRIBUTES_CLASS and matches(scope, {}) for scope in quota.scopes)


def _is_of_pods(name: str) -> bool:
    """Source: MatchingResources in pods.go."""
    is_extended = name.startswith(_REQUESTS) and "/" in name and "kubernetes.io/" not in name
    return name in _PODS or is_extended or name.removeprefix(_REQUESTS).startswith(_HUGE_PAGES)


def _pod_usage(requests: Mapping[str, int], limits: Mapping[str, int]) -> Billionths:
    """Source: podComputeUsageHelper in pods.go."""
    usage: Billionths = {}
    for name, number in requests.items():
        if name in _STANDARD or name.startswith(_HUGE_PAGES):
            usage[name] = number
        if name in _STANDARD or name.startswith(_HUGE_PAGES) or is_extended_resource(name):
            usage[f"{_REQUESTS}{name}"] = number
    return usage | {f"{_LIMITS}{name}": number for name, number in limits.items() if name in _STANDARD}


def _unset_resources(spec: Body, limits: Sequence[LimitRange]) -> dict[str, tuple[str, ...]]:
    """Source: enforcePodContainerConstraints in pods.go."""
    unset: dict[str, tuple[str, ...]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        set_names = _pod_usage(*container_amounts_at_creation(container, limits)).keys()
        for name in _REQUIRED - set_names:
            unset[name] = (*unset.get(name, ()), str(container["name"]))
    return unset


def _is_best_effort(spec: Body, limits: Sequence[LimitRange]) -> bool:
    """Source: ComputePodQOS in pkg/apis/core/v1/helper/qos."""
    amounts = [*whole_pod_amounts(spec)]
    if not any(amounts):
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            amounts += container_amounts_at_creation(container, limits)
    return not any(numbers.get(name) for numbers in amounts for name in ("cpu", "memory"))


def _pod_affinity_terms(spec: Body) -> Iterator[Body]:
    for key in ("podAffinity", "podAntiAffinity"):
        affinity = (spec.get("affinity") or {}).get(key) or {}
        yield from affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        preferred_terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        yield from (term["podAffinityTerm"] for term in preferred_terms)


def _crosses_namespaces(term: Body) -> bool:
    return bool(term.get("namespaces")) or term.get("namespaceSelector") is not None

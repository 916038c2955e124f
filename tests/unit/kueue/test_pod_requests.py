"""The requests of a pod set, from its pods' template."""

import itertools
import random
from typing import Any

import pytest

from tests.seeds import chosen_seed
from tests.unit.kueue.make import make_model, make_queue, make_workload
from trainstack.kueue.admission_simulator import simulate
from trainstack.kueue.from_objects import merge_limit_ranges, read_model
from trainstack.kueue.model import LimitRange, Model, Requirement, Toleration
from trainstack.kueue.pod_requests import pod_set

SEED = chosen_seed("TRAINSTACK_SEARCH_SEED")


def container(name: str = "one", **resources: Any) -> dict[str, Any]:
    """Return a container with `requests` and `limits`."""
    restart = resources.pop("restartPolicy", None)
    return {"name": name, "resources": resources, **({"restartPolicy": restart} if restart else {})}


def requests(spec: dict[str, Any], model: Model | None = None, count: int = 1) -> dict[str, int]:
    """Return the requests of pods with this spec, in namespace `ns`."""
    return dict(pod_set("main", count, {"spec": spec}, "ns", model or make_model()).requests)


def test_the_default_of_a_request_is_the_limit() -> None:
    limited = container(requests={"cpu": "1"}, limits={"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"})
    assert requests({"containers": [limited]}, count=2) == {"cpu": 2000, "memory": 2 * 2**30, "nvidia.com/gpu": 2}


def test_a_request_of_zero_counts_as_a_request() -> None:
    """Kueue requires that its resource is covered."""
    assert requests({"containers": [container(limits={"nvidia.com/gpu": "0"})]}) == {"nvidia.com/gpu": 0}


def test_containers_add_up_exactly_and_the_pod_is_rounded_up() -> None:
    """Two times a tenth of a millicore is one millicore; half a byte is one byte."""
    tiny = container(requests={"cpu": "100u", "memory": "500m"})
    assert requests({"containers": [tiny, {**tiny, "name": "two"}]}, count=3) == {"cpu": 3, "memory": 3}


def test_the_largest_init_container_counts_if_it_exceeds_the_containers() -> None:
    """Init containers run one after the other, before the containers."""
    first = [container("a", requests={"cpu": "3"}), container("b", requests={"cpu": "1", "memory": "4Gi"})]
    spec = {"initContainers": first, "containers": [container(requests={"cpu": "2", "memory": "1Gi"})]}
    assert requests(spec) == {"cpu": 3000, "memory": 4 * 2**30}


def test_a_sidecar_is_added_to_all_later_containers() -> None:
    """It is added to the containers and to later init containers, not to earlier ones."""
    sidecar = container("proxy", requests={"cpu": "1"}, restartPolicy="Always")
    spec = {
        "initContainers": [container("a", requests={"cpu": "3"}), sidecar, container("b", requests={"cpu": "3"})],
        "containers": [container(requests={"cpu": "2"})],
    }
    assert requests(spec) == {"cpu": 4000}
    assert requests({**spec, "initContainers": [sidecar]}) == {"cpu": 3000}


def test_overhead_is_the_pods_or_its_runtime_classs() -> None:
    """The pod's own overhead has precedence."""
    model = make_model(overheads={"heavy": {"cpu": "250m"}})
    spec = {"runtimeClassName": "heavy", "containers": [container(requests={"cpu": "1"})]}
    assert requests(spec, model) == {"cpu": 1250}
    assert requests({**spec, "overhead": {"cpu": "1"}}, model) == {"cpu": 2000}
    assert requests({**spec, "runtimeClassName": "none"}, model) == {"cpu": 1000}


def test_the_overhead_of_a_runtime_class_may_be_unknown() -> None:
    """The verdict is then unknown, unless the containers alone never fit, or the pods have their overhead."""

    def outcome(model: Model, cpu: str, **spec: Any) -> str:
        template = {"spec": {"containers": [container(requests={"cpu": cpu})], **spec}}
        return simulate(make_workload(pod_set("main", 1, template, "ns", model)), model).outcome

    unread, read = (make_model(make_queue(), overheads=overheads) for overheads in (None, {"kata": {"cpu": "1"}}))
    assert outcome(unread, "4", runtimeClassName="kata") == "unknown"
    assert outcome(unread, "5", runtimeClassName="kata") == "never fits"
    assert outcome(unread, "4", runtimeClassName="kata", overhead={"cpu": "0"}) == "fits"
    assert outcome(unread, "4") == "fits"
    assert outcome(read, "3", runtimeClassName="kata") == "fits"
    assert outcome(read, "4", runtimeClassName="kata") == "never fits"


def test_pod_level_requests_replace_those_of_the_containers() -> None:
    """Only cpu and memory have pod-level requests."""
    spec = {
        "resources": {"requests": {"cpu": "3", "nvidia.com/gpu": "9"}},
        "containers": [container(requests={"cpu": "1", "memory": "1Gi"})],
    }
    assert requests(spec) == {"cpu": 3000, "memory": 2**30}


def test_a_limit_range_sets_missing_values_of_a_container() -> None:
    """Its default request has precedence over the container's limit; its default limit is the last default."""
    (bounds,) = merge_limit_ranges(
        [{"type": "Container", "default": {"cpu": "2", "memory": "1Gi"}, "defaultRequest": {"cpu": "1"}}]
    )
    model = make_model(limit_ranges={"ns": (bounds,)})
    assert requests({"containers": [container()]}, model) == {"cpu": 1000, "memory": 2**30}
    assert requests({"containers": [container(limits={"cpu": "4"})]}, model)["cpu"] == 1000
    assert requests({"containers": [container(requests={"cpu": "3"})]}, model)["cpu"] == 3000


@pytest.mark.parametrize(
    ("refused", "faults"),
    [
        (
            container(requests={"cpu": "3"}, limits={"cpu": "2"}),
            ["container one requests more cpu than its limit"],
        ),
        (container(limits={"cpu": "5"}), ["container one has more cpu than the namespace's LimitRange allows"]),
        (
            container(requests={"cpu": "100m"}, limits={"cpu": "1"}),
            ["container one has less cpu than the namespace's LimitRange allows"],
        ),
        (container(requests={"cpu": "200m"}, limits={"cpu": "4"}), []),
    ],
)
def test_pods_that_kueue_refuses_without_regard_to_quota(refused: dict[str, Any], faults: list[str]) -> None:
    """A request exceeds its limit, or a container is outside the bounds of a LimitRange."""
    bounds = LimitRange("Container", minimum={"cpu": 2 * 10**8}, maximum={"cpu": 4 * 10**9})
    model = make_model(limit_ranges={"ns": (bounds,)})
    assert list(pod_set("main", 1, {"spec": {"containers": [refused]}}, "ns", model).faults) == faults


def test_a_limit_range_may_bound_whole_pods() -> None:
    """Their overhead counts."""
    model = make_model(limit_ranges={"ns": merge_limit_ranges([{"type": "Pod", "max": {"cpu": "2"}}])})
    spec = {"containers": [container(requests={"cpu": "2"})], "overhead": {"cpu": "1"}}
    (fault,) = pod_set("main", 1, {"spec": spec}, "ns", model).faults
    assert fault == "a pod has more cpu than the namespace's LimitRange allows"


def test_several_limit_ranges_are_merged() -> None:
    """The tightest bounds and the first defaults count; a maximum is a default limit, which is a default request."""
    first = {"type": "Container", "max": {"cpu": "4"}, "min": {"cpu": "1"}}
    second = {"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "1"}}
    (merged,) = merge_limit_ranges([first, second])
    assert (merged.minimum["cpu"], merged.maximum["cpu"]) == (10**9, 2 * 10**9)
    assert (merged.default_limits["cpu"], merged.default_requests["cpu"]) == (4 * 10**9, 4 * 10**9)


def test_excluded_resources_are_not_counted() -> None:
    """Prefixes of resource names exclude them."""
    requesting = container(requests={"cpu": "1", "example.com/nic": "2", "example.com/gpu": "1"})
    model = read_model((), kueue_configuration={"resources": {"excludeResourcePrefixes": ["example.com/n"]}})
    assert requests({"containers": [requesting]}, model) == {"cpu": 1000, "example.com/gpu": 1}


def test_transformed_resources_are_counted() -> None:
    """The outputs replace the input or are added to it; parts of a unit are transformed too."""
    slices = {"input": "nvidia.com/mig-1g.5gb", "strategy": "Replace", "outputs": {"example.com/memory": "5Gi"}}
    cores = {"input": "cpu", "outputs": {"example.com/credits": "1500m"}}
    model = read_model((), kueue_configuration={"resources": {"transformations": [slices, cores]}})
    requesting = container(requests={"cpu": "1500m", "nvidia.com/mig-1g.5gb": "2"})
    assert requests({"containers": [requesting]}, model, count=2) == {
        "cpu": 3000,
        "example.com/credits": 2 * 3,
        "example.com/memory": 2 * 10 * 2**30,
    }


def as_kueue_would(requested: dict[str, int], transformations: list[dict[str, Any]]) -> dict[str, int]:
    """Return the transformed requests of one order. Source: applyResourceTransformations in Kueue's workload.go."""
    by_input = {each["input"]: each for each in transformations}
    output: dict[str, int] = {}
    for name, number in requested.items():
        mapping = by_input.get(name)
        for other, factor in (mapping["outputs"] if mapping else {}).items():
            output[other] = output.get(other, 0) + int(factor) * number
        if mapping is None or mapping["strategy"] == "Retain":
            output[name] = number
    return output


def test_transformed_requests_are_those_of_every_order_or_unsettled() -> None:
    """Kueue goes through the requests of a pod in random order."""
    rng, names, seen = random.Random(SEED), ("x.org/a", "x.org/b", "x.org/c"), set()
    for _ in range(200):
        requested = {name: rng.randint(1, 2) for name in rng.sample(names, rng.randint(1, 3))}
        transformations = [
            {
                "input": name,
                "strategy": rng.choice(("Retain", "Replace")),
                "outputs": {other: str(rng.randint(1, 2)) for other in names if rng.random() < 0.3},
            }
            for name in rng.sample(names, rng.randint(0, 2))
        ]
        orders = itertools.permutations(requested.items())
        possible = [as_kueue_would(dict(order), transformations) for order in orders]
        model = read_model((), kueue_configuration={"resources": {"transformations": transformations}})
        spec = {"containers": [container(requests={name: str(number) for name, number in requested.items()})]}
        found = pod_set("main", 1, {"spec": spec}, "ns", model)
        differs = any(one != possible[0] for one in possible)
        assert bool(found.ambiguous_resources) is differs, (SEED, requested, transformations)
        assert differs or found.requests == possible[0], (SEED, requested, transformations)
        seen.add(differs)
    assert seen == {True, False}


def test_a_verdict_on_unsettled_requests_is_unknown() -> None:
    memory = {"input": "cpu", "strategy": "Retain", "outputs": {"memory": "1Gi"}}
    transformations = read_model((), kueue_configuration={"resources": {"transformations": [memory]}}).transformations
    model = make_model(make_queue(quotas={"cpu": {"cpu": "4", "memory": "8Gi"}}), transformations=transformations)
    template = {"spec": {"containers": [container(requests={"cpu": "1", "memory": "1Gi"})]}}
    verdict = simulate(make_workload(pod_set("main", 1, template, "ns", model)), model)
    (reason,) = verdict.reasons
    assert verdict.outcome == "unknown"
    assert reason.message == (
        "each pod requests memory, which a transformation of Kueue's Configuration puts out too: Kueue counts both or "
        "the request alone, by chance"
    )


def test_the_scheduling_constraints_of_pods_are_read() -> None:
    """Selector, terms of the required affinity, tolerations with the API's defaults, and the request of a topology."""
    terms = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}, {"matchFields": []}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = {
        "nodeSelector": {"zone": "x"},
        "affinity": {"nodeAffinity": required},
        "tolerations": [{"key": "kind"}, {"key": "kind", "operator": "Exists", "effect": "NoSchedule"}, {"value": "v"}],
        "containers": [],
    }
    annotated = {"metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}, "spec": spec}
    found = pod_set("main", 1, annotated, "ns", make_model())
    assert found.selector == {"zone": "x"}
    assert found.affinity == ((Requirement("pool", "In", ("a",)),), ())
    assert found.tolerations == (
        Toleration("kind", "Equal", "", ""),
        Toleration("kind", "Exists", "", "NoSchedule"),
        Toleration("", "Equal", "v", ""),
    )
    assert found.requests_topology
    assert not pod_set("main", 1, {"spec": spec}, "ns", make_model()).requests_topology

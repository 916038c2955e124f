"""What LimitRanges make of a pod: the amounts that Kueue books and the pod requests, and the pods that are refused."""

import itertools
import random
from fractions import Fraction
from typing import Any

import pytest

from tests.seeds import chosen_seed
from tests.unit.kueue.make import make_model
from trainstack.kueue.booking import amounts_booked_otherwise
from trainstack.kueue.from_objects import merge_limit_ranges
from trainstack.kueue.limit_ranger import refusals, requests_at_creation

SEED = chosen_seed("TRAINSTACK_SEARCH_SEED")
Amounts = dict[str, int | None]


def without_missing(resource: str, amounts: Amounts) -> dict[str, Any]:
    """Return the amounts that are set, as fields that each have this resource alone."""
    return {field: {resource: str(number)} for field, number in amounts.items() if number is not None}


def container(name: str = "one", **resources: Any) -> dict[str, Any]:
    """Return a container with `requests` and `limits`."""
    return {"name": name, "resources": resources}


def first(*amounts: int | None) -> int | None:
    """Return the first amount that is set."""
    return next((number for number in amounts if number is not None), None)


def test_every_amount_that_kueue_books_otherwise_is_found_and_no_other() -> None:
    """All combinations of missing and set amounts of a container and a LimitRange."""
    choices = (None, 1, 2)
    seen = set()
    for request, limit, default, default_request in itertools.product(choices, repeat=4):
        item = without_missing("cpu", {"default": default, "defaultRequest": default_request})
        model = make_model(limit_ranges={"ns": merge_limit_ranges([{"type": "Container", **item}])})
        spec = {"containers": [container(**without_missing("cpu", {"requests": request, "limits": limit}))]}
        booked = first(request, default_request, default, limit)
        requested = first(request, limit, default_request, default)
        alone = first(request, limit)
        found = list(amounts_booked_otherwise(spec, "ns", model))
        expected = booked != requested or booked != alone
        assert len(found) == expected, (spec, item, found)
        seen.add((booked != requested, booked != alone))
    assert len(seen) == 3


def test_a_pod_that_a_limit_range_refuses_is_found_and_no_other() -> None:
    """Drawn minimums, maximums and ratios of pods, which have no defaults."""
    rng, seen = random.Random(SEED), set()
    for _ in range(400):
        request, limit = rng.choice((None, 1, 2, 4)), rng.choice((None, 2, 4, 8))
        bounds: Amounts = {
            "min": rng.choice((None, 2)),
            "max": rng.choice((None, 4)),
            "maxLimitRequestRatio": rng.choice((None, 2)),
        }
        spec = {"containers": [container(**without_missing("cpu", {"requests": request, "limits": limit}))]}
        requested = first(request, limit)
        refused = any(
            (
                bounds["min"] is not None and (requested is None or min(requested, limit or requested) < 2),
                bounds["max"] is not None and (limit is None or max(limit, requested or 0) > 4),
                bounds["maxLimitRequestRatio"] is not None
                and (requested is None or limit is None or Fraction(limit, requested) > 2),
            )
        )
        found = list(refusals(spec, merge_limit_ranges([{"type": "Pod", **without_missing("cpu", bounds)}])))
        assert bool(found) is refused, (SEED, spec, bounds, found)
        seen.add(refused)
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("item", "resources", "problem"),
    [
        ({"min": {"cpu": "2"}}, {"requests": {"cpu": "1"}}, "has less cpu than the namespace's LimitRange allows"),
        ({"max": {"cpu": "2"}}, {"limits": {"cpu": "3"}}, "has more cpu than the namespace's LimitRange allows"),
        (
            {"maxLimitRequestRatio": {"cpu": "1500m"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
            "has a limit of cpu of 2 times its request, and the namespace's LimitRange allows 1.5 times",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "1"}},
            "has no limit of cpu, whose ratio the namespace's LimitRange bounds",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "0"}, "limits": {"cpu": "2"}},
            "has no request of cpu, whose ratio the namespace's LimitRange bounds",
        ),
    ],
)
def test_each_container_is_compared(item: dict[str, Any], resources: dict[str, Any], problem: str) -> None:
    """Also init containers, and with the defaults that a LimitRange has from its bounds."""
    bounds = merge_limit_ranges([{"type": "Container", **item}])
    spec = {
        "initContainers": [container("first", **resources)],
        "containers": [container(**resources), container("fine", requests={"cpu": "2"}, limits={"cpu": "2"})],
    }
    assert list(refusals(spec, bounds)) == [f"init container first {problem}", f"container one {problem}"]


def test_a_limit_of_a_whole_pod_is_its_request_where_no_container_requests_the_resource() -> None:
    spec = {
        "resources": {"limits": {"cpu": "4", "memory": "2Gi"}},
        "containers": [container(requests={"memory": "1Gi"})],
    }
    assert requests_at_creation(spec, ()) == {"cpu": 4 * 10**9, "memory": 2**30 * 10**9}
    assert list(amounts_booked_otherwise(spec, "ns", make_model(excluded_prefixes=("c",)))) == []
    (pods,) = ({"type": "Pod", "max": {"cpu": "2"}},)
    assert list(refusals(spec, merge_limit_ranges([pods]))) == [
        "a pod has more cpu than the namespace's LimitRange allows"
    ]

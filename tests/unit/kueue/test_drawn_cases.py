"""The assumptions of drawn cases that hold before they run on the real Kueue."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from tests.admission.cases import NAMESPACE, PREFIX, Body, Case, cases, is_admitted_after_refusal, make_object
from tests.admission.differential import Answer, simulated_answer

FLAVOR = f"{PREFIX}f0"


def quota(cpu: str) -> list[Body]:
    """Return one group with this amount of cpu on one flavor."""
    return [
        {
            "coveredResources": ["cpu"],
            "flavors": [{"name": FLAVOR, "resources": [{"name": "cpu", "nominalQuota": cpu}]}],
        }
    ]


def asking(name: str, queue: str, cpu: str) -> Body:
    """Return a workload with one pod."""
    container = {"name": "one", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    pods = {"name": "p0", "count": 1, "template": {"spec": {"containers": [container]}}}
    return make_object("Workload", f"{PREFIX}{name}", {"queueName": f"{PREFIX}{queue}", "podSets": [pods]}, NAMESPACE)


def test_a_workload_of_a_closed_queue_uses_nothing() -> None:
    """Found with seed 205112: a queue that is closed to the namespace lends its whole quota to its cohort."""
    lab = f"{PREFIX}lab"
    others = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
    case = Case(
        objects=(
            make_object("ResourceFlavor", FLAVOR, {}),
            *(
                make_object(
                    "ClusterQueue",
                    f"{PREFIX}{name}",
                    {"namespaceSelector": selector, "cohortName": lab, "resourceGroups": quota("2")},
                )
                for name, selector in (("open", {}), ("closed", others))
            ),
            *(
                make_object("LocalQueue", f"{PREFIX}{name}", {"clusterQueue": f"{PREFIX}{name}"}, NAMESPACE)
                for name in ("open", "closed")
            ),
        ),
        before=(asking("first", "closed", "2"), asking("second", "open", "1")),
        candidate=asking("asked", "open", "3"),
    )
    one = {"p0": (1, {"cpu": FLAVOR})}
    assert simulated_answer(case) == Answer(before=(one,), candidate=one, evicts=frozenset(), alone=one)


@pytest.mark.parametrize(
    ("release", "strategy", "slips"),
    [
        ("v0.15", "StrictFIFO", True),
        ("v0.15", "BestEffortFIFO", False),
        ("v0.19", "StrictFIFO", False),
        ("v0.19", "BestEffortFIFO", False),
    ],
)
def test_a_workload_that_contradicts_the_defaults(release: str, strategy: str, slips: bool) -> None:
    """Found with seed 290633: the default request of 2 cores exceeds the limit.

    Only the first attempts of v0.15 apply it, and a strict queue retries at once.
    """
    asked = asking("asked", "open", "1")
    asked["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "500m"}}
    queue = {"namespaceSelector": {}, "queueingStrategy": strategy, "resourceGroups": quota("4")}
    case = Case(
        objects=(
            make_object("ResourceFlavor", FLAVOR, {}),
            make_object("ClusterQueue", f"{PREFIX}open", queue),
            make_object("LocalQueue", f"{PREFIX}open", {"clusterQueue": f"{PREFIX}open"}, NAMESPACE),
            make_object(
                "LimitRange", "limits", {"limits": [{"type": "Container", "default": {"cpu": "2"}}]}, NAMESPACE
            ),
        ),
        before=(),
        candidate=asked,
        release=release,
    )
    assert is_admitted_after_refusal(case) == slips
    found = {"p0": (1, {"cpu": FLAVOR})} if slips else None
    assert simulated_answer(case) == Answer(before=(), candidate=found, evicts=frozenset(), alone=found)


@hypothesis_settings(max_examples=hypothesis_settings().max_examples // 2)
@given(cases())
def test_all_earlier_workloads_are_admitted(case: Case) -> None:
    """The bench waits for the admission of each before it creates the next."""
    assert None not in simulated_answer(case).before

"""The assumptions of drawn cases that hold before they run on the real Kueue."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from tests.admission.cases import NAMESPACE, PREFIX, Body, Case, cases, made, slips_in
from tests.admission.differential import Answer, expected

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
    return made("Workload", f"{PREFIX}{name}", {"queueName": f"{PREFIX}{queue}", "podSets": [pods]}, NAMESPACE)


def test_a_workload_of_a_closed_queue_uses_nothing() -> None:
    """Found with seed 205112: a queue that is closed to the namespace lends its whole quota to its cohort."""
    lab = f"{PREFIX}lab"
    others = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
    case = Case(
        objects=(
            made("ResourceFlavor", FLAVOR, {}),
            *(
                made(
                    "ClusterQueue",
                    f"{PREFIX}{name}",
                    {"namespaceSelector": selector, "cohortName": lab, "resourceGroups": quota("2")},
                )
                for name, selector in (("open", {}), ("closed", others))
            ),
            *(
                made("LocalQueue", f"{PREFIX}{name}", {"clusterQueue": f"{PREFIX}{name}"}, NAMESPACE)
                for name in ("open", "closed")
            ),
        ),
        before=(asking("first", "closed", "2"), asking("second", "open", "1")),
        asked=asking("asked", "open", "3"),
    )
    one = {"p0": (1, {"cpu": FLAVOR})}
    assert expected(case) == Answer(before=(one,), asked=one, evicts=frozenset(), alone=one)


@pytest.mark.parametrize(("strategy", "slips"), [("StrictFIFO", True), ("BestEffortFIFO", False)])
def test_a_strict_queue_admits_a_workload_that_contradicts_the_defaults(strategy: str, slips: bool) -> None:
    """Found with seed 290633: the default request of 2 cores exceeds the limit; only the first attempts apply it."""
    asked = asking("asked", "open", "1")
    asked["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "500m"}}
    queue = {"namespaceSelector": {}, "queueingStrategy": strategy, "resourceGroups": quota("4")}
    case = Case(
        objects=(
            made("ResourceFlavor", FLAVOR, {}),
            made("ClusterQueue", f"{PREFIX}open", queue),
            made("LocalQueue", f"{PREFIX}open", {"clusterQueue": f"{PREFIX}open"}, NAMESPACE),
            made("LimitRange", "limits", {"limits": [{"type": "Container", "default": {"cpu": "2"}}]}, NAMESPACE),
        ),
        before=(),
        asked=asked,
    )
    assert slips_in(case) == slips
    found = {"p0": (1, {"cpu": FLAVOR})} if slips else None
    assert expected(case) == Answer(before=(), asked=found, evicts=frozenset(), alone=found)


@hypothesis_settings(max_examples=hypothesis_settings().max_examples // 2)
@given(cases())
def test_all_earlier_workloads_are_admitted(case: Case) -> None:
    """The bench waits for the admission of each before it creates the next."""
    assert None not in expected(case).before

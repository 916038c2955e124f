"""What the drawn cases take for granted before the real Kueue is asked."""

from hypothesis import given
from hypothesis import settings as hypothesis_settings

from tests.admission.cases import NAMESPACE, PREFIX, Body, Case, cases, made
from tests.admission.differential import Answer, expected

FLAVOR = f"{PREFIX}f0"


def quota(cpu: str) -> list[Body]:
    """One group of one flavor with so much cpu."""
    return [
        {
            "coveredResources": ["cpu"],
            "flavors": [{"name": FLAVOR, "resources": [{"name": "cpu", "nominalQuota": cpu}]}],
        }
    ]


def asking(name: str, queue: str, cpu: str) -> Body:
    """A workload of one pod."""
    container = {"name": "one", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    pods = {"name": "p0", "count": 1, "template": {"spec": {"containers": [container]}}}
    return made("Workload", f"{PREFIX}{name}", {"queueName": f"{PREFIX}{queue}", "podSets": [pods]}, NAMESPACE)


def test_who_may_not_use_its_queue_uses_nothing() -> None:
    """Of seed 205112: a queue that is closed to the namespace lends all that it has to the others of its cohort."""
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


@hypothesis_settings(max_examples=50)
@given(cases())
def test_all_who_come_first_are_admitted(case: Case) -> None:
    """Each as it comes; the bench waits until it is."""
    assert None not in expected(case).before

"""Resources of whole pods that the API server would refuse are found in the files, and no others."""

import random
from fractions import Fraction
from typing import Any

from tests.seeds import chosen_seed
from tests.unit.make import make_run, make_settings
from tests.unit.preflight.cases import ROOT
from trainstack.preflight import file_checks
from trainstack.preflight.rule_context import RuleContext
from trainstack.settings.sections.workloads import Resources
from trainstack.stack_objects.stack_objects import StackObjects

SEED = chosen_seed("TRAINSTACK_SEARCH_SEED")


def draw_init_container(rng: random.Random, name: str) -> dict[str, Any]:
    """Return an init container with a request of cpu; about half of them run beside the others."""
    body: dict[str, Any] = {
        "name": name,
        "image": "helper:1",
        "resources": {"requests": {"cpu": f"{rng.randint(0, 8)}00m"}},
    }
    return body | rng.choice(({}, {"restartPolicy": "Always"}))


def most_at_once(training: Fraction, init: list[dict[str, Any]]) -> Fraction:
    """Return the most cpu that the containers of a pod request at one moment of its life."""
    beside, moments = Fraction(0), [Fraction(0)]
    for container in init:
        cores = Fraction(int(container["resources"]["requests"]["cpu"].removesuffix("m")), 1000)
        moments.append(beside + cores)
        if "restartPolicy" in container:
            beside += cores
    return max(*moments, training + beside)


def test_a_pod_that_requests_less_than_its_containers_at_any_moment_is_found_and_no_other() -> None:
    rng = random.Random(SEED)
    seen = set()
    for _ in range(150):
        training, pod = rng.randint(1, 8), rng.randint(1, 14)
        init = [draw_init_container(rng, name) for name in ("a", "b", "c")[: rng.randint(0, 3)]]
        key = rng.choice(("requests", "limits"))
        patch = {"spec": {"resources": {key: {"cpu": f"{pod}00m"}}, "initContainers": init}}
        run = make_run(resources=Resources(requests={"cpu": f"{training}00m"}), pod_patch=patch)
        context = RuleContext(StackObjects(make_settings(run)), ROOT)
        found = [violation.path for violation in file_checks.RULES["pod-resources-refused"].find(context)]
        refused = Fraction(pod, 10) < most_at_once(Fraction(training, 10), init)
        seen.add((key, refused))
        expected = [f"workloads.runs[train].podPatch.spec.resources.{key}.cpu"] if refused else []
        assert found == expected, (SEED, training, patch)
    assert len(seen) == 4, "the drawn pods do not cover both sides"

"""The objects of an environment and their order."""

import hashlib

import pytest

from tests.unit.make import make_distributed, make_run, make_settings
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import Environment
from trainstack.settings.sections.operators import Operators
from trainstack.stack_objects.inputs import Inputs
from trainstack.stack_objects.stack_objects import StackObjects

NO_OPERATORS = Operators()


def order(settings: Settings, inputs: Inputs) -> list[str]:
    """Return kind and name of each object, in order."""
    return [f"{body['kind']} {body['metadata']['name']}" for body in StackObjects(settings, inputs).manifests()]


def test_objects_are_in_the_order_of_their_creation() -> None:
    """Referenced objects are first; the wrapper is before the run, and the ledger after it."""
    settings = make_settings(make_run(), operators=NO_OPERATORS)
    inputs = Inputs(wrapper="print()", commit="abc")
    (run,) = StackObjects(settings, inputs).runs
    wrapper = hashlib.sha256(b"print()").hexdigest()[:8]
    assert order(settings, inputs) == [
        "Namespace research",
        "NetworkPolicy trainstack-isolated",
        "NetworkPolicy trainstack-replicas",
        "StorageClass shared",
        "WorkloadPriorityClass normal",
        "Cohort local",
        "ResourceFlavor cpu",
        "ClusterQueue research",
        "LocalQueue research",
        "PersistentVolumeClaim training",
        f"ConfigMap trainstack-wrapper-{wrapper}",
        f"Job {run.launch.name}",
        f"ConfigMap run-{run.launch.run_id}",
    ]


@pytest.mark.parametrize(
    ("layer", "first", "last"), [("platform", "Namespace", "LocalQueue"), ("training", "Pers", "ConfigMap run-")]
)
def test_a_stack_of_one_layer_has_only_that_layer(layer: str, first: str, last: str) -> None:
    """The two layers together are the complete environment."""
    environment = {"layers": (layer,), "namespaces": ({"name": "research"},)}
    settings = make_settings(make_run(), operators=NO_OPERATORS, environment=Environment.model_validate(environment))
    names = order(settings, Inputs())
    assert names[0].startswith(first)
    assert names[-1].startswith(last)


def test_the_same_input_gives_the_same_manifests_and_is_not_changed() -> None:
    """Builders are pure."""
    settings = make_settings(make_run(), make_distributed(name="far"), operators=NO_OPERATORS)
    before = settings.model_dump()
    inputs = Inputs(wrapper="print()", commit="abc")
    assert StackObjects(settings, inputs).manifests() == StackObjects(settings, inputs).manifests()
    assert settings.model_dump() == before


def test_each_namespace_with_a_managed_workload_has_one_wrapper() -> None:
    """An unmanaged workload needs none."""
    unmanaged = make_run(name="c", namespace="plain", managed=False, record=None)
    settings = make_settings(make_run(name="a"), make_run(name="b"), unmanaged, operators=NO_OPERATORS)
    wrappers = [name for name in order(settings, Inputs()) if name.startswith("ConfigMap trainstack-wrapper")]
    assert len(wrappers) == 1

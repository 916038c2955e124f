"""A run that `workloads.exclude` names keeps the record of its launch."""

from typing import Any

import pytest

from tests.unit.make import make_run, make_settings
from trainstack.live.snapshot import LiveRuns
from trainstack.runs.ledgers import Ledger
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import Environment, Existing, Namespace
from trainstack.settings.sections.workloads import Workloads
from trainstack.stack_objects.inputs import Inputs
from trainstack.stack_objects.stack_objects import StackObjects
from trainstack.stacks.run_decision import RunDecision, decide_runs_and_sweeps

INPUTS = Inputs(releases={}, wrapper="print()", commit="c" * 40)
HERE = Environment(namespaces=(Namespace(name="research"),))


def make_lab(*names: str, exclude: tuple[str, ...] = (), environment: Environment = HERE) -> Settings:
    """Return an environment with these runs."""
    runs = tuple(make_run(name=name) for name in names)
    settings = make_settings(environment=environment, workloads=Workloads(runs=runs, exclude=exclude))
    return settings.without_excluded_runs()


def decide(settings: Settings, *ledgers: Ledger, **live: Any) -> RunDecision:
    """Return the decision on runs in a cluster with these ledgers and no objects of them."""
    return decide_runs_and_sweeps(
        StackObjects(settings, INPUTS), LiveRuns(live=(), ledgers=ledgers, wrappers={}, **live)
    )


def test_a_run_that_is_excluded_and_included_again_is_not_trained_again() -> None:
    """Other launches in between do not matter."""
    (first,) = decide(make_lab("gpu")).runs.ledgers
    excluded_decision = decide(make_lab("gpu", "cpu", exclude=("gpu",)), first)
    assert [launch.workload for launch in excluded_decision.runs.launches] == ["cpu"]
    assert [ledger.workload for ledger in excluded_decision.runs.ledgers] == ["cpu", "gpu"]
    included_again = decide(make_lab("gpu", "cpu"), *excluded_decision.runs.ledgers)
    assert included_again.runs.launches == ()
    assert sorted(included_again.runs.ledgers, key=run_id) == sorted(excluded_decision.runs.ledgers, key=run_id)


def run_id(ledger: Ledger) -> str:
    """Return the run of a ledger."""
    return ledger.run_id


def test_a_run_that_is_taken_out_is_forgotten() -> None:
    """Its ledger is deleted, and so is that of a run of another name."""
    (first,) = decide(make_lab("gpu")).runs.ledgers
    assert (
        decide(make_lab("cpu", "other", exclude=("other",)), first).runs.ledgers == decide(make_lab("cpu")).runs.ledgers
    )


@pytest.mark.parametrize(
    ("environment", "kept"),
    [
        (Environment(namespaces=(Namespace(name="speech"),)), False),
        (Environment(existing=Existing(namespaces=("research",))), True),
        (Environment(layers=("training",)), True),
        (Environment(layers=("platform",)), False),
    ],
)
def test_nothing_is_kept_in_a_deleted_namespace(environment: Environment, *, kept: bool) -> None:
    """The ledger is deleted with it. A stack of the training layer does not name its namespaces."""
    ledgers = decide(make_lab("gpu")).runs.ledgers
    excluded = decide(make_lab("gpu", exclude=("gpu",), environment=environment), *ledgers)
    assert excluded.runs.ledgers == (ledgers if kept else ())

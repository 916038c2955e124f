"""Where an environment's runs are looked for, and how far they say they are."""

from datetime import UTC, datetime

import pytest

from checks.cluster.progress import RunView
from checks.cluster.snapshot import run_namespaces
from checks.launches import LiveLaunch
from settings.environment import Environment, Namespace
from tests.unit.make import make_run, make_settings


def test_an_owner_looks_everywhere_and_a_tenant_in_its_own_namespaces() -> None:
    """A run may be active in a namespace that the files do not name any more."""
    namespaces = (Namespace(name="research"),)
    run = make_run(namespace="team")
    assert run_namespaces(make_settings(run, environment=Environment(namespaces=namespaces))) == (None,)
    tenant = Environment(profile="tenant", namespaces=namespaces)
    assert "team" in run_namespaces(make_settings(run, environment=tenant))
    assert None not in run_namespaces(make_settings(run, environment=tenant))


@pytest.mark.parametrize(
    ("line", "done"),
    [
        ("epoch 3/12", 0.25),
        ("epoch 3/12 step 20/40 loss 0.1", 2.5 / 12),
        ("epoch 12/12 step 40/40", 1.0),
        ("epoch 0/0", None),
        ("epoch 1/2 step 0/0", None),
        ("nothing of the kind", None),
    ],
)
def test_progress_is_read_from_the_last_line(line: str, done: float | None) -> None:
    """Whatever a program of somebody else's writes."""
    launch = LiveLaunch("a-0123456789", "a-0123456789-abcdef", "Job", "team", "running", datetime.now(UTC))
    view = RunView(launch, (), None, admitted=True, waits_because="", pods=(), last_line=line)
    assert view.done_fraction == (None if done is None else pytest.approx(done))

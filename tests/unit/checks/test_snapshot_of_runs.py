"""Where an environment's runs are looked for, and how far they say they are."""

from datetime import UTC, datetime
from typing import Any

import pytest

from checks.cluster.progress import RunView, describe_pod
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
    name = "a-0123456789-abcdef"
    launch = LiveLaunch("a-0123456789", name, "Job", "team", "running", datetime.now(UTC), name)
    view = RunView(launch, (), None, admitted=True, waits_because="", pods=(), last_line=line)
    assert view.done_fraction == (None if done is None else pytest.approx(done))


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"state": {"running": {}}}, ""),
        ({"state": {"terminated": {"exitCode": 0}}}, ""),
        (
            {"state": {"terminated": {"exitCode": 1, "message": "the checkout failed: b\n"}}},
            ": the checkout failed: b",
        ),
        ({"state": {"terminated": {"exitCode": 137}}}, ": the checkout of the code failed: read its log"),
        (
            {
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 1, "message": "the checkout failed: b"}},
            },
            ": CrashLoopBackOff (it ended, and is started again after a pause: read its log), the checkout failed: b",
        ),
    ],
)
def test_a_failed_checkout_is_told_in_its_own_words(state: dict[str, Any], said: str) -> None:
    """Also while the kubelet pauses before it tries again."""
    status = {"phase": "Pending", "initContainerStatuses": [{"name": "checkout", **state}]}
    assert describe_pod({"metadata": {"name": "a"}, "status": status}) == f"a Pending{said}"


def test_why_a_run_failed_stands_in_its_line() -> None:
    """A checkout that failed leaves no log of the program's."""
    launch = LiveLaunch(
        "a-0123456789", "a-0123456789-abcdef", "Job", "team", "failed", datetime.now(UTC), "a-0123456789-abcdef"
    )
    pods = ("a Failed: the checkout failed: b",)
    view = RunView(launch, (), None, admitted=False, waits_because="", pods=pods, last_line="")
    assert view.summary() == f"failed; {pods[0]}"

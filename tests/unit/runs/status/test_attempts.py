"""A Pod with `restartPolicy: Always` restarts its training whenever it has ended, and never succeeds."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.live_objects import NOW, RUN, Body, make_launch_body, make_pod
from tests.unit.runs.test_launches import make_ledger
from trainstack.runs.dependencies import unmet_dependencies
from trainstack.runs.launches import decide_launches, live_launch
from trainstack.runs.status.attempts import PodAttempt, last_attempt, previous_attempt
from trainstack.runs.status.pods import pod_problems
from trainstack.runs.status.run_view import RunObjects, RunView, run_view
from trainstack.runs.status.waiting import Queueing

END = "2026-01-02T03:14:05Z"
LATER = datetime(2026, 1, 2, 3, 24, 5, tzinfo=UTC)
RUNNING = {"running": {"startedAt": END}}
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}}


def ended(exit_code: int, reason: str = "") -> Body:
    """Return the state of a container that has ended."""
    reason = reason or ("Completed" if exit_code == 0 else "Error")
    return {"terminated": {"exitCode": exit_code, "reason": reason, "startedAt": NOW, "finishedAt": END}}


def attempt(exit_code: int) -> PodAttempt:
    """Return the attempt that is read from that state."""
    return PodAttempt(exit_code, "Completed" if exit_code == 0 else "Error", datetime.fromisoformat(END))


def make_endless(
    state: Body, last_state: Body | None = None, *, restarts: int = 0, policy: str = "Always", **spec: Any
) -> Body:
    """Return a launched Pod with a training container in this state and an injected sidecar."""
    body = make_launch_body(queue=None) | {"kind": "Pod", "apiVersion": "v1"}
    body["spec"] = {
        "nodeName": "local",
        "restartPolicy": policy,
        "containers": [{"name": "proxy"}, {"name": "pytorch"}],
        **spec,
    }
    statuses = [
        {"name": "proxy", "state": {"running": {"startedAt": NOW}}, "lastState": {}, "restartCount": 0},
        {"name": "pytorch", "state": state, "lastState": last_state or {}, "restartCount": restarts},
    ]
    body["status"] = {"phase": "Running", "containerStatuses": statuses}
    return body


def view(body: Body) -> RunView:
    """Return the view of the launch, whose only pod is the launch itself."""
    return run_view(RunObjects(launch=body, queueing=Queueing(None, None), pods=[body]), LATER)


@pytest.mark.parametrize(
    ("body", "last", "previous"),
    [
        pytest.param(make_endless(RUNNING), None, None, id="the first attempt runs"),
        pytest.param(make_endless(ended(0)), attempt(0), None, id="the first has just ended"),
        pytest.param(make_endless(BACK_OFF, ended(0)), attempt(0), attempt(0), id="before its first restart"),
        pytest.param(make_endless(RUNNING, ended(0), restarts=1), attempt(0), attempt(0), id="the second runs"),
        pytest.param(make_endless(RUNNING, ended(1), restarts=1), attempt(1), attempt(1), id="the first failed"),
        pytest.param(make_endless(ended(0), ended(1), restarts=1), attempt(0), attempt(1), id="the second succeeded"),
        pytest.param(make_pod(), None, None, id="no status yet"),
    ],
)
def test_the_attempts_that_kubernetes_remembers(
    body: Body, last: PodAttempt | None, previous: PodAttempt | None
) -> None:
    """The attempts are those of the training container, at any position in the pod."""
    assert (last_attempt(body), previous_attempt(body)) == (last, previous)


@pytest.mark.parametrize(
    ("body", "endless", "completed"),
    [
        pytest.param(make_endless(RUNNING), True, False, id="first attempt"),
        pytest.param(make_endless(BACK_OFF, ended(0)), True, True, id="completed, about to restart"),
        pytest.param(make_endless(RUNNING, ended(0), restarts=3), True, True, id="completed, runs again"),
        pytest.param(make_endless(RUNNING, ended(1), restarts=1), True, False, id="failed, runs again"),
        pytest.param(make_endless(RUNNING, ended(1), restarts=1, policy="OnFailure"), False, False, id="OnFailure"),
        pytest.param(make_endless(RUNNING, ended(0), activeDeadlineSeconds=60), False, False, id="with a deadline"),
    ],
)
def test_an_endless_pod_stays_active_and_is_awaited_until_an_attempt_succeeds(
    body: Body, endless: bool, completed: bool
) -> None:
    """Kubernetes keeps it in phase Running."""
    launch = live_launch(body)
    assert (launch.phase, launch.is_active) == ("running", True)
    assert (launch.endless, launch.completed, launch.is_unfinished) == (endless, completed, not completed)


def test_a_pod_that_its_deadline_ended_has_failed() -> None:
    """Its restart policy does not matter."""
    body = make_endless(ended(137), activeDeadlineSeconds=60)
    body["status"]["phase"] = "Failed"
    launch = live_launch(body)
    assert (launch.phase, launch.is_active, launch.is_unfinished) == ("failed", False, False)


def test_a_pause_after_a_success_is_no_problem() -> None:
    """The kubelet reports CrashLoopBackOff in both cases; only after a failure is it a problem."""
    assert pod_problems(make_endless(BACK_OFF, ended(0))) == ()
    (problem,) = pod_problems(make_endless(BACK_OFF, ended(1)))
    assert problem.startswith("CrashLoopBackOff")


@pytest.mark.parametrize(
    ("body", "summary"),
    [
        pytest.param(make_endless(RUNNING), "running", id="first attempt"),
        pytest.param(
            make_endless(BACK_OFF, ended(0)),
            "running; its last attempt ended with exit code 0 (Completed); restarts: 0",
            id="completed",
        ),
        pytest.param(
            make_endless(RUNNING, ended(1), restarts=2),
            "running; its last attempt ended with exit code 1 (Error); restarts: 2",
            id="failed",
        ),
        pytest.param(make_endless(RUNNING, ended(1), restarts=2, policy="OnFailure"), "running", id="OnFailure"),
    ],
)
def test_a_summary_has_the_restarts_and_the_last_end(body: Body, summary: str) -> None:
    """The restart policy must be Always."""
    assert view(body).summary() == summary


def test_a_run_that_depends_on_an_endless_pod_is_not_launched() -> None:
    """The Pod's program has succeeded, but it restarts and uses its node and volume."""
    launch = live_launch(make_endless(RUNNING, ended(0), restarts=1))
    assert unmet_dependencies({"other-0123456789": (RUN,)}, (), [launch], []) == {"other-0123456789": (RUN,)}


def test_a_refusal_does_not_advise_to_wait_for_an_endless_pod() -> None:
    """The wait would never end."""
    launch = live_launch(make_endless(RUNNING, ended(0), restarts=1))
    (refusal,) = decide_launches([], [launch], [make_ledger()], (), LATER + timedelta(seconds=1)).refusals
    assert refusal.endswith(
        "Undo the edit, or stop it, because it never completes (restartPolicy: Always): "
        f"trainstack:workloads: stop: [{RUN}]"
    )
    assert "trainstack wait" not in refusal

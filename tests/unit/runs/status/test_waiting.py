"""The reasons why a run waits, in plain words; Kueue's messages are recorded from v0.15.2."""

import pytest

from tests.unit.live_objects import Body, make_condition, make_pending, make_queue, make_workload
from trainstack.runs.status.waiting import Queueing, connection_problem, explain_message, preemptor_uid, why_waiting

MAIN = "couldn't assign flavors to pod set main: "
TOO_MUCH = (
    "insufficient quota for cpu in flavor cpu, previously considered podsets requests (0) + current podset request (3)"
    " > maximum capacity (1)"
)
READY = make_queue("research", "Ready")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            f"{MAIN}insufficient unused quota for cpu in flavor cpu, 400m more needed",
            "insufficient cpu: 400m more of flavor cpu must become free",
        ),
        (
            f"{MAIN}{TOO_MUCH}",
            "it never fits: it requests 3 cpu, but flavor cpu has at most 1, 2 short",
        ),
        (
            (
                f"{MAIN}insufficient quota for memory in flavor a, previously considered "
                "podsets requests (2Gi) + current podset request (1536Mi) > maximum capacity (3Gi)"
            ),
            "it never fits: it requests 3584Mi memory, but flavor a has at most 3Gi, 512Mi short",
        ),
        (
            (
                f"{MAIN}insufficient quota for memory in flavor a, previously considered "
                "podsets requests (0) + current podset request (1Gi) > maximum capacity (-436273509481984Ki)"
            ),
            "it never fits: sums of memory on flavor a overflow, as they exceed Kueue's 64 bits",
        ),
        (
            f"{MAIN}resource nvidia.com/gpu unavailable in ClusterQueue",
            "it never fits: the cluster queue has no quota for nvidia.com/gpu",
        ),
        (
            (
                f"{MAIN}flavor h100 doesn't match node affinity, insufficient unused "
                "quota for nvidia.com/gpu in flavor a100.mig, 2 more needed, untolerated taint {gpu true NoSchedule "
                "<nil>} in flavor spot"
            ),
            (
                "insufficient nvidia.com/gpu: 2 more of flavor a100.mig must become free; "
                "or it does not tolerate the taint {gpu true NoSchedule <nil>} of flavor spot; "
                "or flavor h100 does not match its node selector"
            ),
        ),
        (
            (
                "couldn't assign flavors to pod set master: "
                "insufficient unused quota for cpu in flavor a, 1 more needed; "
                "couldn't assign flavors to pod set worker: "
                "insufficient unused quota for cpu in flavor a, 3 more needed"
            ),
            (
                "master: insufficient cpu: 1 more of flavor a must become free; "
                "worker: insufficient cpu: 3 more of flavor a must become free"
            ),
        ),
        (
            (
                f"{MAIN}insufficient unused quota for cpu in flavor cpu, 1 more needed. "
                "Pending the preemption of 2 workload(s)"
            ),
            (
                "insufficient cpu: 1 more of flavor cpu must become free; it waits for the end of 2 other runs, which "
                "are being preempted for it"
            ),
        ),
        ("ClusterQueue shared is stopped", "cluster queue shared is stopped (stopPolicy): ask its owner to resume it"),
        ("LocalQueue research is stopped", "queue research is stopped (stopPolicy): ask its owner to resume it"),
        (
            "LocalQueue nowhere doesn't exist",
            "the namespace has no queue nowhere: correct the run's `queue`, or have the queue declared",
        ),
        (
            "ClusterQueue shared is terminating or missing",
            "its queue uses cluster queue shared, which does not exist: ask the platform's owner to declare it",
        ),
        (
            "Workload namespace doesn't match ClusterQueue selector",
            "the cluster queue does not accept this namespace: ask its owner to add it",
        ),
        (
            "waiting for all admitted workloads to be in PodsReady condition",
            "it waits until the pods of all admitted runs are ready",
        ),
        ("Workload is pending evaluation in the scheduling queue", "Kueue has not evaluated it yet"),
        (
            "Admission is gated by: example.com/a,example.com/b",
            (
                "its admission is gated by example.com/a,example.com/b: whoever set the annotation "
                "kueue.x-k8s.io/admission-gated-by removes it"
            ),
        ),
        (
            "workload namespace doesn't match ClusterQueue selector",
            "the cluster queue does not accept this namespace: ask its owner to add it",
        ),
        ("something that no version has said yet", "something that no version has said yet"),
        (
            f"{MAIN}something new, 1 more needed",
            f"{MAIN}something new, 1 more needed",
        ),
    ],
)
def test_kueues_messages_in_words(message: str, reason: str) -> None:
    """The reason has the missing amount, the flavor that does not match, or the closed queue; else Kueue's message."""
    assert explain_message(message) == reason


@pytest.mark.parametrize(
    ("queueing", "reason"),
    [
        pytest.param(Queueing(make_workload(), READY), "Kueue has not processed it yet", id="just created"),
        pytest.param(
            Queueing(make_pending("ClusterQueue shared is inactive"), READY, make_queue("shared", "Stopped")),
            "cluster queue shared is stopped (stopPolicy): ask its owner to resume it",
            id="held, and the cluster queue may be read",
        ),
        pytest.param(
            Queueing(make_pending("ClusterQueue shared is inactive"), READY, make_queue("shared", "FlavorNotFound")),
            "cluster queue shared lists a flavor that does not exist: ask its owner to declare or remove it",
            id="inactive",
        ),
        pytest.param(
            Queueing(
                make_pending("ClusterQueue shared is inactive"), make_queue("research", "ClusterQueueIsInactive"), None
            ),
            "queue research uses an inactive cluster queue: ask its owner for the reason",
            id="held, for a tenant",
        ),
        pytest.param(
            Queueing({}, {}),
            "the namespace has no queue research: correct the run's `queue`, or have the queue declared",
            id="no Workload and no queue",
        ),
        pytest.param(
            Queueing({}, READY),
            "Kueue has not created its Workload yet: check that its controller runs and manages this kind",
            id="no Workload",
        ),
        pytest.param(
            Queueing(None, None),
            "unknown: these credentials may not read the Workloads of this namespace; "
            "ask the namespace's administrator for that permission",
            id="no right",
        ),
        pytest.param(
            Queueing(
                make_workload(
                    make_condition("QuotaReserved"),
                    admissionChecks=[{"name": "budget", "state": "Pending"}, {"name": "other", "state": "Ready"}],
                ),
                READY,
            ),
            "its quota is reserved; it waits for admission check budget",
            id="admission check",
        ),
        pytest.param(
            Queueing(
                make_workload(
                    make_condition("QuotaReserved"),
                    admissionChecks=[{"name": "elsewhere", "state": "Pending"}],
                    nominatedClusterNames=["west", "east", "north", "south"],
                ),
                READY,
                dispatched=True,
                connection_problems={"south": "ClientConnectionFailed: no route"},
                copies={
                    "east": make_pending(f"{MAIN}insufficient unused quota for cpu in flavor cpu, 400m more needed"),
                    "north": {},
                    "south": "it does not answer",
                },
            ),
            "its quota is reserved; it waits for admission check elsewhere: no cluster has reserved quota for it yet "
            "(east: insufficient cpu: 400m more of flavor cpu must become free; north: Kueue has not created its "
            "Workload there; `trainstack check --cluster` names what is missing; south: it does not answer; west"
            "); Kueue does not reach south (ClientConnectionFailed: no route)",
            id="no worker cluster has quota",
        ),
        pytest.param(
            Queueing(
                make_workload(
                    make_condition("Evicted", reason="AdmissionCheck", message="At least one admission check is false"),
                    admissionChecks=[{"name": "elsewhere", "state": "Pending", "retryCount": 1}],
                ),
                READY,
                dispatched=True,
            ),
            "MultiKueue requeued it: its worker cluster evicted it, or was lost for workerLostTimeout",
            id="worker cluster lost",
        ),
        pytest.param(
            Queueing(
                make_workload(
                    make_condition("Evicted", reason="AdmissionCheck", message="At least one admission check is false"),
                    admissionChecks=[
                        {"name": "elsewhere", "state": "Pending"},
                        {"name": "budget", "state": "Pending", "retryCount": 1},
                    ],
                ),
                READY,
                dispatched=True,
            ),
            "it was evicted: an admission check was withdrawn",
            id="another check retried",
        ),
        pytest.param(
            Queueing(
                make_workload(
                    make_condition("Evicted", reason="PodsReadyTimeout", message="Exceeded the PodsReady timeout"),
                    admissionChecks=[{"name": "elsewhere", "state": "Pending", "retryCount": 1}],
                ),
                READY,
                dispatched=True,
            ),
            "it was evicted: its pods were not all ready in time",
            id="worker cluster lost earlier",
        ),
        pytest.param(
            Queueing(
                make_pending("ClusterQueue shared is inactive"),
                READY,
                make_queue("shared", "AdmissionCheckInactive", kind="ClusterQueue"),
                dispatched=True,
                connection_problems={"west": "BadKubeConfig: no Secret"},
            ),
            "cluster queue shared lists an admission check that is not active: Kueue does not reach west "
            "(BadKubeConfig: no Secret)",
            id="no worker cluster is connected",
        ),
        pytest.param(
            Queueing(
                make_workload(
                    make_condition("QuotaReserved"),
                    admissionChecks=[{"name": "elsewhere", "state": "Pending"}],
                    clusterName="west",
                ),
                READY,
            ),
            "its quota is reserved; it waits for admission check elsewhere, which starts it in cluster west",
            id="a worker cluster is chosen",
        ),
        pytest.param(
            Queueing(
                make_workload(
                    make_condition("Evicted", reason="Deactivated", message="too often"), spec={"active": False}
                ),
                READY,
            ),
            "Kueue does not admit it, because its Workload is deactivated: too often",
            id="deactivated",
        ),
        pytest.param(
            Queueing(
                make_workload(
                    make_condition("Evicted", reason="PodsReadyTimeout", message="Exceeded the PodsReady timeout"),
                    requeueState={"count": 1, "requeueAt": "2026-01-02T04:00:00Z"},
                ),
                READY,
            ),
            "it was evicted: its pods were not all ready in time; it is requeued at 2026-01-02T04:00:00Z",
            id="pods not ready in time",
        ),
    ],
)
def test_why_a_run_waits(queueing: Queueing, reason: str) -> None:
    """The reason is from the Workload, or from its queues if they are more specific."""
    assert why_waiting("research", queueing) == reason


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ([], "it has not been tried yet"),
        ([make_condition("Active", reason="Active", message="Connected")], ""),
        ([make_condition("Active", "False", "BadKubeConfig", "no Secret")], "BadKubeConfig: no Secret"),
    ],
)
def test_why_kueue_does_not_reach_a_cluster(conditions: list[Body], reason: str) -> None:
    """The reason is in the condition of its MultiKueueCluster."""
    assert connection_problem({"metadata": {"name": "west"}, "status": {"conditions": conditions}}) == reason


def preempted(owners: dict[str, str]) -> Queueing:
    """Return a preempted Workload that waits again."""
    message = "Preempted to accommodate a workload (UID: 1a, JobUID: 2b-3c) due to prioritization in the ClusterQueue"
    workload = make_workload(
        make_condition("QuotaReserved", "False", "Pending", "Preempted"),
        make_condition("Evicted", reason="Preempted", message=message),
        make_condition("Preempted", reason="InClusterQueue", message=message),
    )
    return Queueing(workload, READY, owners=owners)


@pytest.mark.parametrize(
    ("owners", "preempting"),
    [({"2b-3c": "research/big-1"}, "research/big-1"), ({}, "another run")],
    ids=["read", "not read"],
)
def test_the_reason_names_the_preempting_run(owners: dict[str, str], preempting: str) -> None:
    """The reason has its name if it is readable."""
    queueing = preempted(owners)
    workload: Body = dict(queueing.workload or {})
    assert preemptor_uid(workload) == "2b-3c"
    reason = why_waiting("research", queueing)
    assert reason.startswith(f"it was preempted by {preempting}, of higher priority in the same cluster queue")


def test_a_run_that_runs_again_has_no_preemptor() -> None:
    """The status of the condition is False."""
    workload = make_workload(make_condition("Preempted", "False", "QuotaReserved", "Previously: JobUID: 2b-3c"))
    assert preemptor_uid(workload) is None

"""Runs that Kueue does not admit although their quota is available."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.forecast.make import make_task
from tests.unit.kueue.make import make_admitted, make_model, make_pods, make_queue, make_workload
from tests.unit.kueue.test_from_objects import body
from tests.unit.make import make_queues, make_run, make_settings
from trainstack.forecast.forecast import forecast
from trainstack.forecast.notes import note_on_run
from trainstack.forecast.simulation import simulate as simulate_plan
from trainstack.forecast.tasks import Duration, Task
from trainstack.kueue.admission_simulator import AdmissionSimulator, simulate
from trainstack.kueue.from_objects import merge_limit_ranges, read_model, read_queue_state, stack_model
from trainstack.kueue.model import Model, Preemption, Workload
from trainstack.kueue.pod_requests import pod_set
from trainstack.kueue.verdict import Verdict
from trainstack.kueue.verdicts import stack_verdicts
from trainstack.kueue.workloads import read_workload, run_workloads
from trainstack.settings.sections.queues import LocalQueue
from trainstack.settings.sections.workloads import ReplicatedJob, Resources
from trainstack.stack_objects.stack_objects import StackObjects

QUEUE = make_model(make_queue())


def reasons(verdict: Verdict) -> tuple[str, list[str]]:
    """Return the outcome and the messages."""
    return verdict.outcome, [reason.message for reason in verdict.reasons]


@pytest.mark.parametrize(("count", "outcome"), [(8, "fits"), (9, "never fits")])
def test_a_workload_has_at_most_eight_pod_sets(count: int, outcome: str) -> None:
    """Kueue creates no Workload for a JobSet with nine replicated jobs."""
    jobs = tuple(
        ReplicatedJob(name=f"job-{number}", resources=Resources(requests={"cpu": "100m"})) for number in range(count)
    )
    run = make_run(kind="JobSet", managed=False, record=None, volumes=(), replicated_jobs=jobs)
    (verdict,) = stack_verdicts(StackObjects(make_settings(run)))
    assert verdict.outcome == outcome
    assert [reason.cause for reason in verdict.reasons] == (["pod-sets"] if count > 8 else [])


@pytest.mark.parametrize(
    ("configuration", "namespace", "outcome"),
    [
        pytest.param(None, "ns", "fits", id="the default"),
        pytest.param({}, "kube-system", "never fits", id="the default leaves out kube-system"),
        pytest.param({"namespace": "queueing"}, "queueing", "never fits", id="and Kueue's own"),
        pytest.param({"managedJobsNamespaceSelector": {"matchLabels": {"team": "red"}}}, "ns", "fits", id="matches"),
        pytest.param({"managedJobsNamespaceSelector": {"matchLabels": {"team": "blue"}}}, "ns", "never fits", id="not"),
        pytest.param(
            {
                "managedJobsNamespaceSelector": {"matchLabels": {"team": "blue"}},
                "featureGates": {"ManagedJobsNamespaceSelectorAlwaysRespected": False},
            },
            "ns",
            "fits",
            id="applies only to jobs without a queue",
        ),
    ],
)
def test_kueue_manages_the_namespaces_that_its_configuration_selects(
    configuration: Any, namespace: str, outcome: str
) -> None:
    """In other namespaces the webhook suspends the run, and nothing admits it."""
    objects = [
        body("ResourceFlavor", "cpu"),
        body("Namespace", "ns", metadata={"labels": {"team": "red"}}),
        body(
            "ClusterQueue",
            "q",
            {
                "namespaceSelector": {},
                "resourceGroups": [
                    {
                        "coveredResources": ["cpu"],
                        "flavors": [{"name": "cpu", "resources": [{"name": "cpu", "nominalQuota": "4"}]}],
                    }
                ],
            },
        ),
        body("LocalQueue", "q", {"clusterQueue": "q"}, metadata={"namespace": namespace}),
    ]
    found = simulate(make_workload(namespace=namespace), read_model(objects, kueue_configuration=configuration))
    assert found.outcome == outcome
    assert [reason.cause for reason in found.reasons] == ([] if outcome == "fits" else ["namespace-unmanaged"])


def test_a_selector_of_the_cluster_queue_closes_it() -> None:
    """The namespace's labels count, also those that the environment does not declare."""
    closed = replace(QUEUE, cluster_queues={"q": make_queue(namespace_selector=None)})
    assert [reason.cause for reason in simulate(make_workload(), closed).reasons] == ["queue-closed"]


@pytest.mark.parametrize(
    ("ready", "blocks"),
    [
        pytest.param(None, False, id="off"),
        pytest.param({"timeout": "5m"}, False, id="v1beta2: not by default"),
        pytest.param({"timeout": "5m", "blockAdmission": True}, True, id="v1beta2: on"),
    ],
)
def test_admission_waits_for_ready_pods(ready: Any, blocks: bool) -> None:
    """With blockAdmission Kueue admits nothing while an admitted workload anywhere is not ready."""
    configuration = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", **({"waitForPodsReady": ready} if ready else {})}
    model = replace(QUEUE, blocks_admission=read_model([], kueue_configuration=configuration).blocks_admission)
    starting, started = make_admitted("starting", is_ready=False), make_admitted("started")
    workload = make_workload(name="new")
    assert AdmissionSimulator(model, [started]).verdict(workload).outcome == "fits"
    found = AdmissionSimulator(model, [started, starting]).verdict(workload)
    message = "waitForPodsReady.blockAdmission: Kueue admits nothing until the pods of ns/starting are ready"
    assert reasons(found) == (("waits", [message]) if blocks else ("fits", []))


@pytest.mark.parametrize(
    ("ready", "blocks"), [({"enable": True}, True), ({"enable": False}, False), ({"timeout": "5m"}, False)]
)
def test_the_older_configuration_blocks_by_default(ready: Any, blocks: bool) -> None:
    """In v1beta1 the default of blockAdmission is the value of `enable`."""
    configuration = {"apiVersion": "config.kueue.x-k8s.io/v1beta1", "waitForPodsReady": ready}
    assert read_model([], kueue_configuration=configuration).blocks_admission is blocks


def test_preemption_does_not_wait_for_ready_pods() -> None:
    """Kueue preempts first, and waits before it admits."""
    queue = make_queue(preemption=Preemption(within_cluster_queue="LowerPriority"))
    model = replace(make_model(queue), blocks_admission=True)
    found = AdmissionSimulator(model, [make_admitted("low", cpu=4, is_ready=False)]).verdict(make_workload(priority=1))
    assert found.outcome == "fits by preempting"


def strict(*pending: Workload, priority: int = 0, created: float = 9.0) -> Verdict:
    """Return the verdict on a workload of 1 cpu in a StrictFIFO queue with 4 cpu, 2 of them used."""
    model = make_model(make_queue(is_strict_fifo=True))
    simulator = AdmissionSimulator(model, [make_admitted("busy", cpu=2)], pending)
    return simulator.verdict(make_workload(name="new", priority=priority, created=created))


def test_a_head_that_never_fits_holds_up_a_strict_queue() -> None:
    """The verdict names it."""
    head = make_workload(make_pods(cpu=5), name="head")
    message = "cluster queue q is StrictFIFO: ns/head never fits, and holds up all workloads behind it"
    assert reasons(strict(head)) == ("waits", [message])
    assert strict(head, priority=1).outcome == "fits"
    assert strict(replace(head, created=10.0)).outcome == "fits"
    assert strict(replace(head, queue="other")).outcome == "fits"


def test_a_strict_queue_waits_for_a_head_that_waits() -> None:
    """A workload that would be admitted now does not block others."""
    message = "cluster queue q is StrictFIFO: ns/head waits, and holds up all workloads behind it"
    assert reasons(strict(make_workload(make_pods(cpu=3), name="head"))) == ("waits", [message])
    assert strict(make_workload(make_pods(cpu=1), name="head")).outcome == "fits"


def test_the_forecast_names_the_head_of_a_strict_queue() -> None:
    """A declared run that never fits holds up those after it, in the files' order."""
    runs = (
        make_run(name="before"),
        make_run(name="head", resources=Resources(requests={"cpu": "3"})),
        make_run(name="behind"),
    )
    queues = make_queues()
    (queue,) = queues.cluster_queues
    strict_queue = queue.model_copy(update={"queueing_strategy": "StrictFIFO"})
    settings = make_settings(*runs, queues=queues.model_copy(update={"cluster_queues": (strict_queue,)}))
    outcomes = {verdict.name: verdict.outcome for verdict in stack_verdicts(StackObjects(settings))}
    assert outcomes == {"before": "fits", "head": "never fits", "behind": "waits"}


def defaulting(**changes: Any) -> Model:
    """Return the model of an environment whose namespace has a queue `default`."""
    return stack_model(StackObjects(adopted(**changes)))


def adopted(**changes: Any) -> Any:
    """Return an environment with a run without a queue, and a queue `default` of 2 cpu."""
    queues = make_queues(local_queues=(LocalQueue(name="default", namespace="research", cluster_queue="research"),))
    return make_settings(make_run(queue=None, resources=Resources(requests={"cpu": "2"}), **changes), queues=queues)


def test_kueue_puts_a_run_without_a_queue_into_default() -> None:
    """It is queued and needs quota, and the forecast does not start it outside every quota."""
    settings = adopted()
    (verdict,) = stack_verdicts(StackObjects(settings))
    assert (verdict.queue, verdict.outcome) == ("default", "fits")
    (timeline,) = forecast(settings).schedule.timelines
    assert timeline.task.is_queued
    assert timeline.spans[0].cluster_queue == "research"


def test_kueue_does_not_queue_a_run_of_an_unmanaged_kind() -> None:
    """It does not queue a run with the feature gate off either."""
    pod = adopted(kind="Pod", managed=False, record=None, volumes=())
    assert run_workloads(StackObjects(pod), stack_model(StackObjects(pod))) == ()
    model = defaulting()
    off = replace(
        model, gates=read_model([], kueue_configuration={"featureGates": {"LocalQueueDefaulting": False}}).gates
    )
    assert run_workloads(StackObjects(adopted()), off) == ()


def test_a_global_default_is_the_priority_of_runs_without_one() -> None:
    """If several defaults exist temporarily, the lowest counts. A WorkloadPriorityClass of the run has precedence."""
    classes = [
        body("PriorityClass", "usual", value=500, globalDefault=True),
        body("PriorityClass", "later", value=700, globalDefault=True),
        body("PriorityClass", "other", value=100),
    ]
    model = replace(defaulting(), default_priority=read_queue_state(classes).model.default_priority)
    without_class, with_class = make_run(priority=None), make_run(name="having")
    found = run_workloads(StackObjects(make_settings(without_class, with_class)), replace(model, local_queues={}))
    assert [workload.priority for workload in found] == [500, 1000]


def ranged(**resources: dict[str, str]) -> tuple[Model, Workload]:
    """Return a workload of one pod in a namespace with a default request of 500m and a default limit of 1 cpu."""
    bounds = merge_limit_ranges([{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}}])
    model = make_model(make_queue(), limit_ranges={"ns": bounds})
    template = {"spec": {"containers": [{"name": "one", "resources": resources}]}}
    return model, make_workload(pod_set("main", 1, template, "ns", model), name="ranged")


def test_pods_above_a_default_limit_never_run_and_hold_quota() -> None:
    """Kueue reserves quota for them, and the API server refuses them: the forecast counts the quota."""
    model, workload = ranged(requests={"cpu": "3"})
    message = (
        "container one requests more cpu than the default limit of the namespace's LimitRange: the API server refuses "
        "its pods, and the run holds quota that Kueue reserves at a later attempt"
    )
    assert reasons(simulate(workload, model)) == ("never fits", [message])
    schedule = simulate_plan(
        [Task(workload=workload, duration=Duration(5.0, "declared")), make_task("next", cpu=2)], model
    )
    holding, waiting = schedule.timelines
    assert (holding.start, holding.spans[0].usage, waiting.spans) == (None, {("cpu", "cpu"): 3000}, ())
    assert note_on_run(holding, schedule, model, None) == (
        "container one requests more cpu than the default limit of the namespace's LimitRange: the API server refuses "
        "its pods, and it holds its quota"
    )


def test_a_default_request_above_the_own_limit_delays_the_admission() -> None:
    """Only Kueue's first attempts apply it; a strict queue makes the next attempt at once."""
    model, workload = ranged(limits={"cpu": "250m"})
    message = (
        "container one has a limit of cpu below the default request of the LimitRange: Kueue refuses its first "
        "attempts, and admits the run when other workloads of the queue or cohort end"
    )
    assert reasons(simulate(workload, model)) == ("waits", [message])
    strict_model = replace(model, cluster_queues={"q": make_queue(is_strict_fifo=True)})
    found = simulate(workload, strict_model)
    assert (found.outcome, found.usage) == ("fits", {("cpu", "cpu"): 500})
    schedule = simulate_plan([Task(workload=workload, duration=Duration(5.0, "declared"))], model)
    assert note_on_run(schedule.timelines[0], schedule, model, None) == (
        "container one has a limit of cpu below the default request of the LimitRange: Kueue may admit it later, when "
        "other workloads end"
    )


@pytest.mark.parametrize(
    ("metadata", "spec", "reason"),
    [
        (
            {"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "made"}},
            {},
            "kueue.x-k8s.io/prebuilt-workload-name: Kueue admits that Workload, which is not read, and creates none",
        ),
        (
            {"annotations": {"kueue.x-k8s.io/prebuilt-workload-name": "made"}},
            {},
            "kueue.x-k8s.io/prebuilt-workload-name: Kueue admits that Workload, which is not read, and creates none",
        ),
        (
            {},
            {"runPolicy": {"schedulingPolicy": {"priorityClass": "high"}}},
            "runPolicy.schedulingPolicy.priorityClass high: priorities of jobs by it are not calculated",
        ),
        (
            {},
            {"priorityClassName": "high"},
            "priorityClassName high of its pods: priorities of jobs by it are not calculated",
        ),
    ],
)
def test_what_else_decides_about_a_job_makes_its_verdict_unknown(metadata: Any, spec: Any, reason: str) -> None:
    """A WorkloadPriorityClass has precedence over other priorities."""
    pod = {"containers": [{"name": "one", "resources": {"requests": {"cpu": "1"}}}]}
    if name := spec.get("priorityClassName"):
        pod["priorityClassName"] = name
    job = {"template": {"spec": pod}, **{key: spec[key] for key in spec if key == "runPolicy"}}
    labels = {"kueue.x-k8s.io/queue-name": "q", **metadata.get("labels", {})}
    launch: Any = {
        "kind": "Job",
        "metadata": {"name": "job", "namespace": "ns", **metadata, "labels": labels},
        "spec": job,
    }
    model = make_model(make_queue(), priorities={"normal": 1})
    found = simulate(read_workload(launch, (), model), model)
    assert (found.outcome, [item.message for item in found.reasons]) == ("unknown", [f"Workload ns/job sets {reason}"])
    launch["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "normal"
    ranked = simulate(read_workload(launch, (), model), model)
    assert ranked.outcome == ("unknown" if "prebuilt" in reason else "fits")

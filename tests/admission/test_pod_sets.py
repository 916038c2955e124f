"""The pod sets that we read from launches, compared with those of the Workloads that Kueue creates."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.admission.bench import Bench, key
from tests.admission.kueue import Body, wait_until
from tests.unit.make import make_cluster_queue, make_distributed, make_queues, make_run, make_settings
from tests.unit.runs.manifests.test_mpijob import make_mpijob
from tests.unit.runs.manifests.test_object import make_object
from tests.unit.runs.manifests.test_rayjob import make_rayjob
from trainstack.kueue.from_objects import stack_model
from trainstack.kueue.model import PodSet, Workload
from trainstack.kueue.workloads import read_kueue_workload, read_workload, run_workloads
from trainstack.objects.labels import MIN_PARALLELISM
from trainstack.platform import queues
from trainstack.runs.identity import Facts
from trainstack.runs.launch import Launch
from trainstack.runs.manifests.build import companions, manifest
from trainstack.settings.base import Toleration
from trainstack.settings.model import Settings
from trainstack.settings.sections.code import Code
from trainstack.settings.sections.environment import Environment, Namespace
from trainstack.settings.sections.workloads import ReplicatedJob, Resources, Role
from trainstack.stack_objects.stack_objects import StackObjects

NAMESPACE = "launches"
CODE = Code(git="https://example.org/code.git", revision="0" * 40, mount_path="/code")
MIXED = Resources(requests={"cpu": "250m", "memory": "1536Mi"}, limits={"cpu": "1", "nvidia.com/gpu": "2"})
JOBS = (
    ReplicatedJob(name="driver", resources=MIXED),
    ReplicatedJob(name="workers", replicas=2, parallelism=2, completions=4),
)


def environment() -> Settings:
    """Return an environment with runs of every kind that Kueue manages, in a queue on hold."""
    runs = (
        make_run(resources=MIXED, code=CODE),
        make_run(name="several", managed=False, completions=9, parallelism=3),
        make_run(name="few", managed=False, completions=2, parallelism=3, node_selector={"pool": "a"}),
        make_distributed(name="even", tolerations=(Toleration(key="kind", operator="Exists"),)),
        make_distributed(name="uneven", roles={"Master": Role(resources=MIXED), "Worker": Role(replicas=3)}),
        make_distributed(name="trained", kind="TrainJob"),
        make_run(name="set", kind="JobSet", managed=False, replicated_jobs=JOBS),
        make_mpijob(3, name="mpi", code=CODE),
        make_mpijob(name="alone", roles={"Launcher": Role(resources=MIXED)}),
        make_object(name="other", code=CODE),
        make_rayjob(name="ray", code=CODE),
        make_rayjob(name="http", roles={"head": Role(resources=MIXED), "b": Role(replicas=2), "a": Role(replicas=3)}),
    )
    held = make_queues(cluster_queues=(make_cluster_queue(stop_policy="Hold", cohort=None),))
    local = tuple(queue.model_copy(update={"namespace": NAMESPACE}) for queue in held.local_queues)
    return make_settings(
        *(run.model_copy(update={"namespace": NAMESPACE}) for run in runs),
        queues=held.model_copy(update={"local_queues": local}),
        environment=Environment(namespaces=(Namespace(name=NAMESPACE),)),
    )


@pytest.fixture(scope="module")
def launched(bench: Bench) -> Iterator[dict[str, Workload]]:
    """Return the Workloads that Kueue has created for the runs."""
    settings = environment()
    queue_settings, stack = settings.queues, settings.stack
    platform: list[Body] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        *(queues.priority_class(priority_class, stack) for priority_class in queue_settings.priority_classes),
        *(queues.resource_flavor(flavor, stack) for flavor in queue_settings.flavors),
        *(queues.cluster_queue(queue, stack) for queue in queue_settings.cluster_queues),
    ]
    local = [queues.local_queue(queue, stack) for queue in queue_settings.local_queues]
    launches = [manifest(run, stack, named(run.name)) for run in settings.workloads.runs]
    launches.append(shrinking(launches[1]))
    others = [body for run in settings.workloads.runs for body in companions(run, stack, named(run.name))]
    bench.api.create(platform)
    bench.api.create([*local, *others])
    bench.api.create(launches)
    try:
        names = {key(body) for body in launches}
        wait_until("all Workloads are there", lambda: names <= bench.workloads().keys())
        model = stack_model(StackObjects(settings))
        live = {name: read_kueue_workload(body, model) for name, body in bench.workloads().items() if name in names}
        yield {
            workload_key.partition("/")[2]: body for workload_key, body in live.items() if isinstance(body, Workload)
        }
    finally:
        bench.api.delete([*launches, *others, *local, *platform[1:]])


def named(name: str) -> Launch:
    """A launch of this name; images are never pulled."""
    facts = Facts(image="none", data_digest=None, wrapper="none", git_image="none", commit="")
    return Launch(run_id=name, name=name, facts=facts)


def shrinking(job: Body) -> Body:
    """Return a copy of this Job with the name `shrinking` and a minimum parallelism of two."""
    metadata = job["metadata"]
    annotations = {**metadata.get("annotations", {}), MIN_PARALLELISM: "2"}
    return {**job, "metadata": {**metadata, "name": "shrinking", "annotations": annotations}}


def without_paths(sets: tuple[PodSet, ...]) -> list[PodSet]:
    """Pod sets without the settings' paths."""
    return [replace(pod_set, path="", resources_path="") for pod_set in sets]


def test_every_kind_of_run_is_read_as_kueue_reads_it(launched: dict[str, Workload]) -> None:
    """Names, order, counts, requests with those of init containers, selectors and tolerations; priority and queue."""
    settings = environment()
    ours = run_workloads(StackObjects(settings), stack_model(StackObjects(settings)))
    assert [item.name for item in ours] == [run.name for run in settings.workloads.runs]
    for workload in ours:
        theirs = launched[workload.name]
        assert without_paths(workload.pod_sets) == without_paths(theirs.pod_sets), workload.name
        assert (workload.queue, workload.priority) == (theirs.queue, theirs.priority)


def test_the_minimum_parallelism_of_a_job_is_read(launched: dict[str, Workload]) -> None:
    """By Kueue's annotation."""
    settings = environment()
    job = shrinking(manifest(settings.workloads.runs[1], "test", named("several")))
    ours = read_workload(job, (), stack_model(StackObjects(settings)))
    assert (without_paths(ours.pod_sets), ours.pod_sets[0].min_count) == (
        without_paths(launched["shrinking"].pod_sets),
        2,
    )

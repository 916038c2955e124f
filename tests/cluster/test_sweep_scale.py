"""Sweeps of hundreds of trials on simulated GPU nodes, with few resources and within the limits on parallel trials."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pytest

from tests.cluster.lab import Config, true_conditions
from tests.cluster.pods import make_pod
from tests.cluster.project import Project, eventually
from tests.cluster.search import search_config, trials_of, write_space
from tests.local_clusters import kept_state, local_cluster
from trainstack.local_cluster.api import ApiClient
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.images import ensure_images, helpers, operators
from trainstack.local_cluster.simulated_gpus import DURATION_ANNOTATION, GPU, GPU_PRODUCT, SIMULATED_NODE_KEY
from trainstack.local_cluster.spec import ClusterSpec
from trainstack.local_cluster.state_folder import Layout

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NAMESPACE = "scale"
NODES, PER_NODE = 13, 8
QUOTA = 20
"""The GPU quota of the narrow queue."""
PRIORITIES = ("high", "normal", "low")
UP_SECONDS = 10
"""The limit for `pulumi up` of a thousand trials."""


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Yield a cluster with about a hundred GPUs on simulated nodes."""
    spec = ClusterSpec(simulated_nodes=NODES, simulated_gpus=PER_NODE)
    with local_cluster(tmp_path_factory.mktemp("scale"), spec, kept=kept_state("-scale")) as running:
        ensure_images([*operators(("kueue",)), *helpers()], running.registry, lambda _: None)
        yield running


@pytest.fixture(scope="module")
def platform(simulated: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield a deployed platform with Kueue, a wide queue with all GPUs, and a narrow queue on hold."""
    checkout = Project.copy(tmp_path_factory.mktemp("platform"), simulated)
    project = checkout.other_stack("scale", platform_config())
    done = project.trainstack("up", "--yes", "--no-wait", seconds=600)
    assert done.code == 0, done.text
    yield project
    project.take_down()
    assert project.kubectl("delete", "namespace", NAMESPACE, "--timeout=120s", "--ignore-not-found").code == 0


def platform_config() -> Config:
    """Return the configuration of a platform-only stack."""

    def queue(name: str, gpus: int, **changes: Any) -> Config:
        quotas = [
            {"name": "cpu", "nominalQuota": 800},
            {"name": "memory", "nominalQuota": "1600Gi"},
            {"name": GPU, "nominalQuota": gpus},
        ]
        group = {"coveredResources": ["cpu", "memory", GPU], "flavors": [{"name": "gpu", "resources": quotas}]}
        return {"name": name, "resourceGroups": [group], **changes}

    gpu = {"name": "gpu", "nodeLabels": {GPU_PRODUCT: "NVIDIA-A100-SXM4-40GB"}}
    queues = {"wide": queue("wide", NODES * PER_NODE), "narrow": queue("narrow", QUOTA, stopPolicy="Hold")}
    return {
        "trainstack:environment": {"layers": ["platform"], "namespaces": [{"name": NAMESPACE}]},
        "trainstack:storage": {"classes": [{"name": "shared", "provisioner": "rancher.io/local-path"}]},
        # Kueue handles hundreds of Jobs at once here. With a request of 50m, other pods make it lose its lease.
        "trainstack:operators": {"kueue": {"requests": {"cpu": "1", "memory": "512Mi"}}},
        "trainstack:queues": {
            "flavors": [{**gpu, "tolerations": [{"key": SIMULATED_NODE_KEY, "operator": "Exists"}]}],
            "clusterQueues": list(queues.values()),
            "localQueues": [{"name": name, "namespace": NAMESPACE, "clusterQueue": name} for name in queues],
        },
    }


def training(queue: str, seconds: int, **changes: Any) -> Config:
    """Return a sweep's `run` with one GPU, which a simulated node completes after this many seconds."""
    return {
        "kind": "Job",
        "namespace": NAMESPACE,
        "queue": queue,
        "image": {"name": "busybox:1.35"},
        "command": ["train"],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {GPU: 1}},
        "annotations": {DURATION_ANNOTATION: f"{seconds}s"},
        "runAsUser": 1000,
        **changes,
    }


def test_a_thousand_trials_need_at_most_five_resources(platform: Project) -> None:
    """One `pulumi up` takes seconds, the trials run with the given parallelism, and a further `up` changes nothing."""
    write_space(platform, "thousand", {"seed": {"int": {"low": 1, "high": 1000}}}, args=["--seed=${parameters.seed}"])
    recorded = {"record": {"volume": "lab"}, "volumes": [{"volume": "lab", "mountPath": "/mnt/lab"}]}
    run = training("wide", 2, **recorded)
    empty = search_config("scale", namespace=NAMESPACE)
    project = platform.other_stack("thousand", empty)
    try:
        done = project.up()
        assert done.code == 0, done.text
        bind_claim(project)
        before = resources(project)
        sweep = {"name": "thousand", "form": "indexed", "parallelism": 100, "run": run}
        project.write_stack("thousand", search_config("scale", sweep, namespace=NAMESPACE))
        began = time.monotonic()
        done = project.up()
        seconds = time.monotonic() - began
        assert done.code == 0, done.text
        new = resources(project) - before
        print(f"a thousand trials: {seconds:.1f} s, {sorted(new)}")
        assert len(new) <= 5
        (body,) = jobs_of(project, "thousand").values()
        assert [trial["parameters"]["seed"] for trial in trials_of(project, body)] == list(range(1, 1001))

        sampled = watch(project, lambda: all_succeeded(jobs_of(project, "thousand"), 1), {})
        assert 50 < sampled.most_pods <= 100
        assert sampled.most_admitted == {"wide": 100}
        (body,) = jobs_of(project, "thousand").values()
        assert (body["status"]["succeeded"], body["status"]["completedIndexes"]) == (1000, "0-999")
        done = project.up("--refresh", "--expect-no-changes")
        assert done.code == 0, done.text
        assert seconds <= UP_SECONDS
    finally:
        project.take_down()


def bind_claim(project: Project) -> None:
    """Bind the claim by a pod on the real node, because simulated nodes create no folders."""
    pod = make_pod("binds", "true", volumes=[{"name": "lab", "persistentVolumeClaim": {"claimName": "lab"}}])
    pod["metadata"]["namespace"] = NAMESPACE
    done = project.kubectl("apply", stdin=json.dumps(pod))
    assert done.code == 0, done.text
    eventually("a bound claim", lambda: project.get("pvc", "lab", NAMESPACE)["status"]["phase"] == "Bound")
    # A claim stays in use while a pod with it exists, even if the pod has completed.
    assert project.kubectl("delete", "pod", "binds", "-n", NAMESPACE).code == 0


def jobs_of(project: Project, sweep: str) -> dict[str, Config]:
    """Return the live Jobs of a sweep, by run id or batch id."""
    found = project.select("jobs", f"trainstack.dev/stack={project.stack},trainstack.dev/sweep={sweep}", NAMESPACE)
    return {body["metadata"]["labels"]["trainstack.dev/run"]: body for body in found}


def resources(project: Project) -> set[str]:
    """Return the URNs of the stack's resources."""
    done = project.pulumi("stack", "export")
    assert done.code == 0, done.text
    return {resource["urn"] for resource in json.loads(done.out)["deployment"]["resources"]}


@dataclass(frozen=True)
class Reservation:
    """A workload's quota reservation, and its time by Kueue's clock in whole seconds."""

    queue: str
    gpus: int
    since: str


def peak_gpus(reservations: Mapping[str, Reservation], jobs: Iterable[Config]) -> Counter[str]:
    """Return the most GPUs in use at once by queue, also between samples. Within a second, ends precede starts.

    A trial's end is that of its Job, because Kueue deletes workloads that it considers a mismatch for their finished
    Jobs.
    """
    peak: Counter[str] = Counter()
    in_use: Counter[str] = Counter()
    changes = []
    for job in jobs:
        reservation = reservations[job["metadata"]["uid"]]
        changes += [
            (reservation.since, reservation.gpus, reservation.queue),
            (job["status"]["completionTime"], -reservation.gpus, reservation.queue),
        ]
    for _, gpus, queue in sorted(changes):
        in_use[queue] += gpus
        peak[queue] = max(peak[queue], in_use[queue])
    return peak


@dataclass
class Samples:
    """The maxima of repeated samples of the cluster."""

    samples: int = 0
    most_pods: int = 0
    """The most running pods."""
    most_admitted: Counter[str] = field(default_factory=Counter)
    """The most GPUs of workloads with reserved quota, by queue."""
    most_of: dict[str, int] = field(default_factory=dict)
    """The most unfinished launches, by capped sweep."""
    reservations: dict[str, Reservation] = field(default_factory=dict)
    """The quota reservations, by the UID of their Job."""


def watch(project: Project, until: Any, capped: dict[str, int], stop: Event | None = None) -> Samples:
    """Sample the namespace until the condition is true."""
    sampled = Samples(most_of=dict.fromkeys(capped, 0))
    end = time.monotonic() + 900
    api = ApiClient(server_of(project), Layout.of(project.kubeconfig.parent).certs)
    while not until() and not (stop and stop.is_set()):
        assert time.monotonic() < end, "it did not end within 15 minutes"
        sample(api, sampled)
        time.sleep(0.5)
    return sampled


def sample(api: ApiClient, sampled: Samples) -> None:
    """Take one sample of pods, workloads and Jobs."""
    pods = api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    # In the stored version, because Kueue would have to convert every object to another one.
    workloads = api.request("GET", f"/apis/kueue.x-k8s.io/v1beta1/namespaces/{NAMESPACE}/workloads")["items"]
    jobs = api.request("GET", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")["items"]
    sampled.samples += 1
    running = sum(pod["status"].get("phase") == "Running" for pod in pods)
    sampled.most_pods = max(sampled.most_pods, running)
    reserved: Counter[str] = Counter()
    for workload in workloads:
        conditions = {
            condition["type"]: condition
            for condition in workload.get("status", {}).get("conditions", ())
            if condition["status"] == "True"
        }
        uid = workload["metadata"]["ownerReferences"][0]["uid"]
        if "QuotaReserved" in conditions:
            queue, gpus = (
                workload["spec"]["queueName"],
                sum(pod_set["count"] for pod_set in workload["spec"]["podSets"]),
            )
            sampled.reservations.setdefault(
                uid, Reservation(queue, gpus, conditions["QuotaReserved"]["lastTransitionTime"])
            )
            reserved[queue] += gpus
    sampled.most_admitted |= reserved
    for name in sampled.most_of:
        label = "trainstack.dev/sweep"
        active = [job for job in jobs if job["metadata"]["labels"].get(label) == name and not is_finished(job)]
        sampled.most_of[name] = max(sampled.most_of[name], len(active))


def is_finished(job: Config) -> bool:
    """Return whether a Job has finished."""
    return bool(true_conditions(job) & {"Complete", "Failed"})


def all_succeeded(jobs: dict[str, Config], count: int) -> bool:
    """Return whether there are `count` Jobs, all of which have succeeded."""
    return sum("Complete" in true_conditions(body) for body in jobs.values()) == count == len(jobs)


def server_of(project: Project) -> str:
    """Return the address of the API server."""
    done = project.kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
    assert done.code == 0, done.text
    return done.out


def test_two_hundred_trials_as_separate_jobs(platform: Project) -> None:
    """Trials start by priority and within the quota, and a capped sweep never exceeds its parallelism.

    `trainstack up` launches all of them.
    """
    sizes = {"high": 60, "normal": 60, "low": 60, "capped": 20}
    for name, size in sizes.items():
        write_space(platform, name, {"seed": {"int": {"low": 1, "high": size}}}, args=["--seed=${parameters.seed}"])
    # Long enough that no trial starts and ends between two samples, even on a busy machine.
    run = training("narrow", 6, managed=False)
    sweeps = [{"name": name, "run": {**run, "priority": name}} for name in PRIORITIES]
    capped = {"name": "capped", "parallelism": 4, "run": {**run, "queue": "wide", "priority": "low"}}
    project = platform.other_stack("hundreds", search_config("scale", *sweeps, capped, namespace=NAMESPACE))
    stop = Event()
    try:
        with ThreadPoolExecutor(2) as pool:
            samples = pool.submit(watch, project, lambda: False, {"capped": 4}, stop)
            try:
                deployment = pool.submit(project.trainstack, "up", "--yes", seconds=900)
                eventually("all are in the queue", lambda: deployment.done() or queued_workloads(project) >= 180, 300)
                assert not deployment.done(), deployment.result().text
                patch = '{"spec": {"stopPolicy": "None"}}'
                done = project.kubectl("patch", "clusterqueue", "narrow", "--type=merge", "--patch", patch)
                assert done.code == 0, done.text
                done = deployment.result()
            finally:
                stop.set()
            sampled = samples.result()
        assert done.code == 0, done.text
        print(f"two hundred trials: {sampled.samples} samples, {sampled.most_of}, {dict(sampled.most_admitted)}")
        jobs = {name: jobs_of(project, name) for name in sizes}
        assert {name: len(found) for name, found in jobs.items()} == sizes
        assert all(all_succeeded(found, sizes[name]) for name, found in jobs.items())
        assert sampled.samples > 50
        assert sampled.most_of == {"capped": 4}
        assert sampled.most_admitted == {"narrow": QUOTA, "wide": 4}
        at_once = peak_gpus(sampled.reservations, (body for found in jobs.values() for body in found.values()))
        assert at_once <= Counter({"narrow": QUOTA, "wide": 4}), at_once
        times = {
            name: sorted(sampled.reservations[body["metadata"]["uid"]].since for body in jobs[name].values())
            for name in PRIORITIES
        }
        assert times["high"][-1] <= times["normal"][0]
        assert times["normal"][-1] <= times["low"][0]
        done = project.up("--refresh", "--expect-no-changes")
        assert done.code == 0, done.text
    finally:
        stop.set()
        project.take_down(seconds=900)


def queued_workloads(project: Project) -> int:
    """Return the number of Kueue's workloads for the narrow queue, in the stored version."""
    found = project.get("workloads.v1beta1.kueue.x-k8s.io", namespace=NAMESPACE)["items"]
    return sum(workload["spec"]["queueName"] == "narrow" for workload in found)

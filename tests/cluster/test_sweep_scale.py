"""Sweeps of hundreds of trials on simulated GPU nodes: few resources, and never more at once than may be."""

import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.cluster.lab import Config, true_conditions
from tests.cluster.pods import make_pod
from tests.cluster.project import Project, eventually
from tests.cluster.search import search_config, space, trials_of
from trainstack.dev.cluster import cluster as devcluster
from trainstack.dev.cluster.api import Api
from trainstack.dev.cluster.cluster import Cluster
from trainstack.dev.cluster.images import ensure_images, helpers, operators
from trainstack.dev.cluster.layout import Layout
from trainstack.dev.cluster.simulated import DURATION, GPU, GPU_PRODUCT, SIMULATED
from trainstack.dev.cluster.spec import ClusterSpec

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NAMESPACE = "scale"
NODES, PER_NODE = 13, 8
QUOTA = 20
"""GPUs of the narrow queue."""
PRIORITIES = ("high", "normal", "low")
UP_SECONDS = 10
"""What `pulumi up` of a thousand trials may take."""


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with a hundred GPUs on nodes that are pretended."""
    kept = os.environ.get("TRAINSTACK_TEST_CLUSTER")
    state = Path(f"{kept}-scale") if kept else tmp_path_factory.mktemp("scale")
    try:
        running = devcluster.up(state, ClusterSpec(simulated_nodes=NODES, simulated_gpus=PER_NODE))
        ensure_images([*operators(("kueue",)), *helpers()], running.registry, lambda _: None)
        yield running
    finally:
        if not kept:
            devcluster.down(state, keep_data=False)


@pytest.fixture(scope="module")
def platform(simulated: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Kueue and two queues: a wide one with all GPUs, and a narrow one that admits nothing until it is told to."""
    checkout = Project.copy(tmp_path_factory.mktemp("platform"), simulated)
    project = checkout.other("scale", platform_config())
    done = project.trainstack("up", "--yes", "--no-wait", seconds=600)
    assert done.code == 0, done.text
    yield project
    project.take_down()
    assert project.kubectl("delete", "namespace", NAMESPACE, "--timeout=120s", "--ignore-not-found").code == 0


def platform_config() -> Config:
    """A stack of the platform's half alone."""

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
        # Kueue handles hundreds of Jobs at once here. With the share of 50m, beside other pods, it loses its lease.
        "trainstack:operators": {"kueue": {"requests": {"cpu": "1", "memory": "512Mi"}}},
        "trainstack:queues": {
            "flavors": [{**gpu, "tolerations": [{"key": SIMULATED, "operator": "Exists"}]}],
            "clusterQueues": list(queues.values()),
            "localQueues": [{"name": name, "namespace": NAMESPACE, "clusterQueue": name} for name in queues],
        },
    }


def training(queue: str, seconds: int, **changes: Any) -> Config:
    """A sweep's `run` of one GPU, which a simulated node pretends to do for so long."""
    return {
        "kind": "Job",
        "namespace": NAMESPACE,
        "queue": queue,
        "image": {"name": "busybox:1.35"},
        "command": ["train"],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {GPU: 1}},
        "annotations": {DURATION: f"{seconds}s"},
        "runAsUser": 1000,
        **changes,
    }


def test_a_thousand_trials_are_five_resources(platform: Project) -> None:
    """One `pulumi up` of seconds; all of them run, so many at once; nothing is left to do then."""
    space(platform, "thousand", {"seed": {"int": {"low": 1, "high": 1000}}}, args=["--seed=${parameters.seed}"])
    recorded = {"record": {"volume": "lab"}, "volumes": [{"volume": "lab", "mountPath": "/mnt/lab"}]}
    run = training("wide", 2, **recorded)
    empty = search_config("scale", namespace=NAMESPACE)
    project = platform.other("thousand", empty)
    try:
        done = project.up()
        assert done.code == 0, done.text
        bound(project)
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
        assert [each["parameters"]["seed"] for each in trials_of(project, body)] == list(range(1, 1001))

        sampled = watch(project, lambda: over(jobs_of(project, "thousand"), 1), {})
        assert 50 < sampled.most_pods <= 100
        assert sampled.most_admitted == {"wide": 100}
        (body,) = jobs_of(project, "thousand").values()
        assert (body["status"]["succeeded"], body["status"]["completedIndexes"]) == (1000, "0-999")
        done = project.up("--refresh", "--expect-no-changes")
        assert done.code == 0, done.text
        assert seconds <= UP_SECONDS
    finally:
        project.take_down()


def bound(project: Project) -> None:
    """Have the claim's folder made on the real node: a simulated one makes none."""
    pod = make_pod("binds", "true", volumes=[{"name": "lab", "persistentVolumeClaim": {"claimName": "lab"}}])
    pod["metadata"]["namespace"] = NAMESPACE
    done = project.kubectl("apply", stdin=json.dumps(pod))
    assert done.code == 0, done.text
    eventually("a bound claim", lambda: project.get("pvc", "lab", NAMESPACE)["status"]["phase"] == "Bound")
    # A pod keeps the claims that it names, also when it has ended.
    assert project.kubectl("delete", "pod", "binds", "-n", NAMESPACE).code == 0


def jobs_of(project: Project, sweep: str) -> dict[str, Config]:
    """The live Jobs of a sweep, by run id or batch id."""
    found = project.select("jobs", f"trainstack.dev/stack={project.stack},trainstack.dev/sweep={sweep}", NAMESPACE)
    return {body["metadata"]["labels"]["trainstack.dev/run"]: body for body in found}


def resources(project: Project) -> set[str]:
    """The URNs of a stack's resources."""
    done = project.pulumi("stack", "export")
    assert done.code == 0, done.text
    return {each["urn"] for each in json.loads(done.out)["deployment"]["resources"]}


@dataclass(frozen=True)
class Held:
    """What a workload got, and when, by Kueue's own clock: to the second."""

    queue: str
    gpus: int
    since: str


def most_at_once(held: Mapping[str, Held], jobs: Iterable[Config]) -> Counter[str]:
    """By queue: the most GPUs at work at once, between samples too. What ends in a second ends before others begin.

    When a trial ended is its Job's to tell: Kueue deletes workloads of finished Jobs that it takes for not matching.
    """
    most: Counter[str] = Counter()
    now: Counter[str] = Counter()
    changes = []
    for job in jobs:
        one = held[job["metadata"]["uid"]]
        changes += [(one.since, one.gpus, one.queue), (job["status"]["completionTime"], -one.gpus, one.queue)]
    for _, gpus, queue in sorted(changes):
        now[queue] += gpus
        most[queue] = max(most[queue], now[queue])
    return most


@dataclass
class Sampled:
    """What was seen of the cluster, again and again."""

    samples: int = 0
    most_pods: int = 0
    """Pods that ran at once."""
    most_admitted: Counter[str] = field(default_factory=Counter)
    """By queue: GPUs of workloads that held quota at once."""
    most_of: dict[str, int] = field(default_factory=dict)
    """By capped sweep: launches that were queued or at work at once."""
    held: dict[str, Held] = field(default_factory=dict)
    """By the uid of a Job: what quota it got, and when."""


def watch(project: Project, until: Any, capped: dict[str, int], stop: Event | None = None) -> Sampled:
    """Sample the namespace until something is so."""
    sampled = Sampled(most_of=dict.fromkeys(capped, 0))
    end = time.monotonic() + 900
    api = Api(server_of(project), Layout.of(project.kubeconfig.parent).certs)
    while not until() and not (stop and stop.is_set()):
        assert time.monotonic() < end, "it did not end within 15 minutes"
        sample(api, sampled)
        time.sleep(0.5)
    return sampled


def sample(api: Api, sampled: Sampled) -> None:
    """One look at pods, workloads and Jobs."""
    pods = api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    # In the version that is stored: Kueue would have to convert each of another one.
    workloads = api.request("GET", f"/apis/kueue.x-k8s.io/v1beta1/namespaces/{NAMESPACE}/workloads")["items"]
    jobs = api.request("GET", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")["items"]
    sampled.samples += 1
    running = sum(pod["status"].get("phase") == "Running" for pod in pods)
    sampled.most_pods = max(sampled.most_pods, running)
    held: Counter[str] = Counter()
    for each in workloads:
        conditions = {
            one["type"]: one for one in each.get("status", {}).get("conditions", ()) if one["status"] == "True"
        }
        uid = each["metadata"]["ownerReferences"][0]["uid"]
        if "QuotaReserved" in conditions:
            queue, gpus = each["spec"]["queueName"], sum(one["count"] for one in each["spec"]["podSets"])
            sampled.held.setdefault(uid, Held(queue, gpus, conditions["QuotaReserved"]["lastTransitionTime"]))
            held[queue] += gpus
    sampled.most_admitted |= held
    for name in sampled.most_of:
        label = "trainstack.dev/sweep"
        active = [job for job in jobs if job["metadata"]["labels"].get(label) == name and not ended(job)]
        sampled.most_of[name] = max(sampled.most_of[name], len(active))


def ended(job: Config) -> bool:
    """Whether a Job has come to its end."""
    return bool(true_conditions(job) & {"Complete", "Failed"})


def over(jobs: dict[str, Config], count: int) -> bool:
    """Whether so many Jobs have ended, and all of them well."""
    return sum("Complete" in true_conditions(body) for body in jobs.values()) == count == len(jobs)


def server_of(project: Project) -> str:
    """The address of the API server."""
    done = project.kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
    assert done.code == 0, done.text
    return done.out


def test_two_hundred_trials_one_by_one(platform: Project) -> None:
    """By priority, within the quota, and of a capped sweep never more than its places; `trainstack up` goes on."""
    sizes = {"high": 60, "normal": 60, "low": 60, "capped": 20}
    for name, size in sizes.items():
        space(platform, name, {"seed": {"int": {"low": 1, "high": size}}}, args=["--seed=${parameters.seed}"])
    # So long that none begins and ends between two samples, on a busy machine too.
    run = training("narrow", 6, managed=False)
    sweeps = [{"name": name, "run": {**run, "priority": name}} for name in PRIORITIES]
    capped = {"name": "capped", "parallelism": 4, "run": {**run, "queue": "wide", "priority": "low"}}
    project = platform.other("hundreds", search_config("scale", *sweeps, capped, namespace=NAMESPACE))
    stop = Event()
    try:
        with ThreadPoolExecutor(2) as pool:
            seen = pool.submit(watch, project, lambda: False, {"capped": 4}, stop)
            try:
                whole = pool.submit(project.trainstack, "up", "--yes", seconds=900)
                eventually("all are in the queue", lambda: whole.done() or waiting(project) >= 180, 300)
                assert not whole.done(), whole.result().text
                patch = '{"spec": {"stopPolicy": "None"}}'
                done = project.kubectl("patch", "clusterqueue", "narrow", "--type=merge", "--patch", patch)
                assert done.code == 0, done.text
                done = whole.result()
            finally:
                stop.set()
            sampled = seen.result()
        assert done.code == 0, done.text
        print(f"two hundred trials: {sampled.samples} samples, {sampled.most_of}, {dict(sampled.most_admitted)}")
        jobs = {name: jobs_of(project, name) for name in sizes}
        assert {name: len(found) for name, found in jobs.items()} == sizes
        assert all(over(found, sizes[name]) for name, found in jobs.items())
        assert sampled.samples > 50
        assert sampled.most_of == {"capped": 4}
        assert sampled.most_admitted == {"narrow": QUOTA, "wide": 4}
        at_once = most_at_once(sampled.held, (body for found in jobs.values() for body in found.values()))
        assert at_once <= Counter({"narrow": QUOTA, "wide": 4}), at_once
        times = {
            name: sorted(sampled.held[body["metadata"]["uid"]].since for body in jobs[name].values())
            for name in PRIORITIES
        }
        assert times["high"][-1] <= times["normal"][0]
        assert times["normal"][-1] <= times["low"][0]
        done = project.up("--refresh", "--expect-no-changes")
        assert done.code == 0, done.text
    finally:
        stop.set()
        project.take_down(seconds=900)


def waiting(project: Project) -> int:
    """The workloads that Kueue has made for the narrow queue, in the version that is stored."""
    found = project.get("workloads.v1beta1.kueue.x-k8s.io", namespace=NAMESPACE)["items"]
    return sum(each["spec"]["queueName"] == "narrow" for each in found)

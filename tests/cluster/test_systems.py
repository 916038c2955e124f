"""The reference systems from their environment files: deployment, upload, runs, results and clean-up.

The tests assert the values of the published set-ups on the live objects. Each test follows the system's page in
docs/systems: it copies the lines of `Try it`, and runs every command of the table.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster import forge
from tests.cluster.lab import assert_no_changes, launch, launches, outputs, run_id, true_conditions
from tests.cluster.page import Page
from tests.cluster.people import NAMESPACE, PRODUCT, QUEUE, Person
from tests.cluster.project import Project, eventually
from tests.cluster.users_registry import UsersRegistry, execute_image_rows, users_registry
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.images import ensure_images, git

pytestmark = pytest.mark.cluster

GPU_IMAGE = "pytorch/pytorch:2.0.1-cuda11.7-cudnn8-devel"
VSPHERE = "projects.registry.vmware.com/models/kubeflow-docs/model-training-pytorch:1.11.0-"
BASELINE = "harbor-repo.vmware.com/kubeflow_learning/lab3-pytorch-training:dlc-0.0.1"
DISTRIBUTED, BASELINE_POD = "pytorchjob-distributed-training", "pytorch-training-single-pod"
GLOO, GLOO_IMAGE = "pytorch-dist-mnist-gloo-demo", "kubeflow/pytorch-dist-mnist-test:1.0"
MODELS, MODEL_IMAGE = "traindb-training-mnist", "joleedocker/traindb-training-mnist:1.0"
SWEEP = "mnist-single-job"
MAIN = """
import os, yaml
mine = yaml.safe_load(open("hyperparams.yml"))[int(os.environ["JOB_ID"]) - 1]["hyperparam_set"]
print("batch size", mine["batch_size"], "of commit NUMBER")
print(f"val_accuracy={1 - abs(mine['batch_size'] - 64) / 1000:.4f}")
"""
"""The main.py of the sweep's repository, which only prints."""
SECONDS = 300
"""The timeout of a run, long enough for a busy machine."""


@pytest.fixture(scope="module")
def copy(sites: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a copy of the project for the environments of all systems."""
    return Project.copy(tmp_path_factory.mktemp("systems"), sites)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UsersRegistry]:
    """Yield a user's registry with a password and TLS."""
    with users_registry(tmp_path_factory.mktemp("registry")) as served:
        yield served


def environment(copy: Project, sites: LocalCluster, stack: str, kubeconfig: Path | None = None) -> Iterator[Page]:
    """Yield the page of a committed environment, and destroy the environment afterwards."""
    page = Page(copy.environment(stack, kubeconfig or copy.kubeconfig), sites.state)
    try:
        yield page
    finally:
        if not any(line.startswith("trainstack destroy") for line in page.typed):
            stops = json.loads(page.project.trainstack("destroy", "--json").out)["stops"]
            words = [word for run in stops for word in ("--stop", run)]
            done = page.project.trainstack("destroy", "--keep-platform", "--yes", *words)
            assert done.code == 0, done.text


@pytest.fixture
def eidf(copy: Project, sites: LocalCluster, tenant: Person) -> Iterator[Page]:
    """Yield the page of the tenant's environment, with the tenant's rights only."""
    yield from environment(copy, sites, "eidf", tenant.kubeconfig)


@pytest.fixture
def vsphere(copy: Project, sites: LocalCluster) -> Iterator[Page]:
    """Yield the page of the environment with the baseline."""
    yield from environment(copy, sites, "vsphere")


@pytest.fixture
def azurestack(copy: Project, sites: LocalCluster) -> Iterator[Page]:
    """Yield the page of the environment with the gloo demo."""
    yield from environment(copy, sites, "azurestack")


@pytest.fixture
def traindb(copy: Project, sites: LocalCluster) -> Iterator[Page]:
    """Yield the page of the environment of the database."""
    yield from environment(copy, sites, "traindb")


@pytest.fixture
def sweeps(copy: Project, sites: LocalCluster, tenant: Person, owner: Person, tmp_path: Path) -> Iterator[Page]:
    """Yield the page of the tenant's sweep, whose repository is reachable from the cluster."""
    ensure_images([git(), forge.recipe()], sites.registry, lambda _: None)
    try:
        server = forge.start(copy, tmp_path, MAIN)
        forge.create_secret(copy, NAMESPACE, "code-authority", "Opaque", ca_crt=server.authority)
        code = {"git": server.url("public"), "revision": server.commits[2], "secret": "code-authority"}
        for page in environment(copy, sites, "sweeps", tenant.kubeconfig):
            # The page requires an address and a commit that the cluster can reach.
            page.project.edit_stack(lambda config: config["trainstack:sweeps"]["sweeps"][0]["run"]["code"].update(code))
            yield page
    finally:
        forge.stop(copy)
        owner.kubectl("delete", "secret", "code-authority", "-n", NAMESPACE, "--ignore-not-found")


def assert_nothing_left(page: Page, namespace: str) -> None:
    """Assert that no object of a run exists after `trainstack destroy`, and wait until its pods are deleted."""
    project = page.project
    done = page.type(f"trainstack status -s {project.stack}")
    assert f"no run of {project.stack} has an object in the cluster" in done.out
    assert launches(project, namespace=namespace) == []
    pods = f"trainstack.dev/stack={project.stack}"
    eventually("the pods are gone", lambda: not project.select("pods", pods, namespace))


def up(project: Project, *words: str) -> str:
    """Run `pulumi up` as a user does, and return its output."""
    done = project.up(*words)
    assert done.code == 0, done.text
    return done.text


def await_succeeded(project: Project, name: str, namespace: str) -> dict[str, Any]:
    """Wait until a workload has succeeded, and return its object."""

    def found() -> dict[str, Any] | None:
        body = launch(project, name, namespace)
        ends = true_conditions(body) | {body.get("status", {}).get("phase")}
        assert "Failed" not in ends, project.trainstack("logs", name).text
        return body if ends & {"Complete", "Succeeded"} else None

    body: dict[str, Any] = eventually(f"{name} has ended", found, SECONDS)
    return body


def assert_model_fetched(project: Project, name: str, namespace: str, folder: Path) -> None:
    """Assert that the complete record of a run, with its model, can be fetched."""
    body = await_succeeded(project, name, namespace)
    done = project.trainstack("fetch", run_id(body), "--to", str(folder))
    assert done.code == 0, done.text
    assert (folder / "_SUCCESS").is_file()
    (model,) = (folder / "result").glob("*.pt*")
    assert model.stat().st_size > 0


def only_container(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the only container of a pod or a pod template."""
    (container,) = template["spec"]["containers"]
    return dict(container)


def values_of(body: Mapping[str, Any], *keys: str) -> list[Any]:
    """Return the values of some keys, None for missing ones."""
    return [body.get(key) for key in keys]


def retained(project: Project) -> list[str]:
    """Return the objects that the stack's outputs list as retained."""
    return [entry.partition(":")[0] for entry in outputs(project)["retained"]]


def test_a_shared_gpu_service(eidf: Page, tenant: Person, owner: Person, tmp_path: Path) -> None:
    """A tenant with rights in one namespace uploads code and data, trains in Jobs, and fetches the model."""
    project = eidf.project
    eidf.copy("pulumi up")
    claim = tenant.get("pvc", "pytorch-pvc", NAMESPACE)["spec"]
    assert values_of(claim, "storageClassName", "accessModes") == ["csi-cephfs-sc", ["ReadWriteMany"]]
    assert claim["resources"]["requests"]["storage"] == "2Gi"
    job = launch(project, "lightweight-job", NAMESPACE)
    assert_loader_as_published(job)
    # Runs that depend on the files are not launched before the upload.
    assert [body["metadata"]["generateName"] for body in launches(project, namespace=NAMESPACE)] == ["lightweight-job-"]
    assert assigned_resources(owner, job) == {"cpu", "memory"}
    loader = running_pod(tenant, job)
    assert re.search(r"pytorch-pvc +Bound", eidf.type("kubectl get pvc pytorch-pvc -n eidf001").out)
    assert re.search(r"pytorch-pvc +Bound", eidf.type("trainstack status lightweight-job -s eidf").out)
    assert re.search(
        r"lightweight-job-\w+ +Job +running +eidf001-user-queue", eidf.type("trainstack status -s eidf").out
    )

    code = "example_pytorch_code.py"
    eidf.type(f"kubectl cp workloads/eidf/{code} eidf001/{loader}:/mnt/ceph/{code}")
    assert eidf.type(f"kubectl exec -n eidf001 {loader} -- ls /mnt/ceph").out.split() == [code]
    eidf.copy("trainstack upload")
    listed = {line.split("  ")[1] for line in eidf.type("trainstack ls pytorch-pvc:. -s eidf").out.splitlines()}
    assert {code, "train-images-idx3-ubyte", "train-labels-idx1-ubyte"} <= listed
    assert job["metadata"]["name"] in eidf.copy("kubectl delete jobs").out

    eidf.copy("pulumi up")
    job = launch(project, "pytorch-job", NAMESPACE)
    assert_training_as_published(job, completions=1, backoff_limit=1, ttl_seconds=1800)
    assert assigned_resources(owner, job) == {"cpu", "memory", "nvidia.com/gpu"}
    assert "epoch 5/5" in eidf.copy("trainstack logs").out
    await_succeeded(project, "pytorch-job", NAMESPACE)
    assert re.search(r"Complete +True", eidf.type("trainstack status pytorch-job -s eidf").out)
    assert "SuccessfulCreate" in eidf.type("trainstack events pytorch-job -s eidf").out
    eidf.copy("trainstack fetch")
    assert (project.root / "model.pth").stat().st_size > 1000

    eidf.copy("pulumi up")
    multi = launch(project, "pytorch-job-multi", NAMESPACE)
    assert_training_as_published(multi, completions=3, backoff_limit=4, ttl_seconds=3600)
    eidf.copy("trainstack wait")
    assert await_succeeded(project, "pytorch-job-multi", NAMESPACE)["status"]["succeeded"] == 3
    output = eidf.type("trainstack status pytorch-job-multi -s eidf").out
    assert replica_counts(output) == {"pod": (3, 3)}
    assert_no_changes(project, NAMESPACE)

    assert_model_fetched(project, "pytorch-job-recorded", NAMESPACE, tmp_path / "record")
    assert retained(project) == [f"PersistentVolumeClaim {NAMESPACE}/pytorch-pvc"]
    eidf.copy("trainstack destroy")
    assert_nothing_left(eidf, NAMESPACE)
    eidf.type("kubectl delete pvc pytorch-pvc -n eidf001")
    eidf.assert_completed()


def replica_counts(printed: str) -> dict[str, tuple[int, int]]:
    """Return the succeeded and the total replicas by role, as `trainstack status RUN` prints them."""
    found = re.findall(r"(\w+) +\d+ +(\d+) +\d+ +(\d+)\b", printed.partition("Replicas")[2].partition("Conditions")[0])
    return {role: (int(succeeded), int(total)) for role, succeeded, total in found}


def assert_loader_as_published(job: dict[str, Any]) -> None:
    """Assert that the loader is a light Job on the queue that only sleeps, with the volume at /mnt/ceph."""
    assert job["metadata"]["name"].startswith("lightweight-job-")
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == QUEUE
    assert values_of(job["spec"], "completions", "backoffLimit", "ttlSecondsAfterFinished") == [1, 1, 1800]
    container = only_container(job["spec"]["template"])
    assert values_of(container, "name", "image", "command") == ["data-loader", "busybox", ["sleep", "infinity"]]
    resources = {"cpu": "1", "memory": "1Gi"}
    assert container["resources"] == {"requests": resources, "limits": resources}
    assert container["volumeMounts"] == [{"name": "pytorch-pvc", "mountPath": "/mnt/ceph"}]
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def assert_training_as_published(job: dict[str, Any], completions: int, backoff_limit: int, ttl_seconds: int) -> None:
    """Assert that the Job requests one GPU of the slice in the service's page."""
    assert job["metadata"]["name"].startswith("pytorch-job-")
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == QUEUE
    spec = job["spec"]
    assert values_of(spec, "completions", "backoffLimit", "ttlSecondsAfterFinished") == [
        completions,
        backoff_limit,
        ttl_seconds,
    ]
    container = only_container(spec["template"])
    command = ["python3", "/mnt/ceph/example_pytorch_code.py"]
    assert values_of(container, "name", "image", "command") == ["pytorch-con", GPU_IMAGE, command]
    assert container["resources"] == {
        "requests": {"cpu": "2", "memory": "1Gi"},
        "limits": {"cpu": "4", "memory": "4Gi", "nvidia.com/gpu": "1"},
    }
    assert spec["template"]["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": PRODUCT}
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def running_pod(tenant: Person, job: dict[str, Any]) -> str:
    """Wait for the loader's running pod, and return its name."""
    selector = f"job-name={job['metadata']['name']}"

    def running() -> str | None:
        phases = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in tenant.pods(selector, NAMESPACE)}
        return next((name for name, phase in phases.items() if phase == "Running"), None)

    pod: str = eventually("the loader runs", running)
    return pod


def assigned_resources(owner: Person, job: dict[str, Any]) -> set[str]:
    """Return an active Job's resources with assigned quota, all from the flavor with the product's label."""

    def admission() -> dict[str, str] | None:
        selector = f"kueue.x-k8s.io/job-uid={job['metadata']['uid']}"
        for workload in owner.items("workloads.kueue.x-k8s.io", NAMESPACE, selector):
            admitted = workload.get("status", {}).get("admission")
            if admitted:
                (pod_set,) = admitted["podSetAssignments"]
                return dict(pod_set["flavors"])
        return None

    flavors: dict[str, str] = eventually(f"{job['metadata']['name']} is admitted", admission)
    assert {*flavors.values()} == {"a100-mig-1g-5gb"}
    return {*flavors}


def assert_replicas(owner: Person, body: dict[str, Any], **replicas: int) -> None:
    """Assert the replicas of a PyTorchJob by role, and wait until all of them have succeeded."""
    specs = body["spec"]["pytorchReplicaSpecs"]
    assert {role: spec["replicas"] for role, spec in specs.items()} == replicas
    assert {spec["restartPolicy"] for spec in specs.values()} == {"OnFailure"}
    metadata = body["metadata"]

    def succeeded() -> dict[str, int | None]:
        # The job succeeds with its master; the operator counts the workers in a later reconciliation.
        states = owner.get("pytorchjob", metadata["name"], metadata["namespace"])["status"]["replicaStatuses"]
        return {role: state.get("succeeded") for role, state in states.items()}

    eventually(f"the states are {replicas}", lambda: succeeded() == replicas, 30)


def mounts(body: dict[str, Any], role: str) -> list[tuple[str, str]]:
    """Return the claims and paths that a role's pods mount."""
    template = body["spec"]["pytorchReplicaSpecs"][role]["template"]
    claims = {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"] for volume in template["spec"].get("volumes", ())
    }
    return [(claims[mount["name"]], mount["mountPath"]) for mount in only_container(template).get("volumeMounts", ())]


def test_distributed_training_matches_its_baseline(vsphere: Page, owner: Person) -> None:
    """On the same data, three replicas take a third of the baseline's steps each, with the same accuracy."""
    project = vsphere.project
    crd = owner.get("crd", "pytorchjobs.kubeflow.org")
    assert crd["spec"]["group"] == "kubeflow.org"
    vsphere.copy("trainstack check")
    before = owner.get("namespace", "user")["metadata"]
    vsphere.copy("pulumi up")
    claim = owner.get("pvc", "data", "user")
    assert claim["metadata"]["labels"]["app"] == "data"
    assert values_of(claim["spec"], "storageClassName", "accessModes") == ["k8s-storage-policy", ["ReadWriteOnce"]]
    assert claim["spec"]["resources"]["requests"]["storage"] == "10Gi"
    # The namespace belongs to its owner, so nothing is added to it.
    after = owner.get("namespace", "user")["metadata"]
    assert values_of(after, "uid", "labels", "annotations") == values_of(before, "uid", "labels", "annotations")
    assert owner.items("networkpolicies", "user") == []
    assert launched(project) == [DISTRIBUTED]
    assert_logs_of_each_replica(vsphere)
    assert_distributed_job_as_published(project, owner)
    assert_distributed_job_status(vsphere)

    vsphere.copy("trainstack up")
    assert launched(project) == ["distributed-recorded", BASELINE_POD, DISTRIBUTED]
    runs = [launch(project, name, "user") for name in (DISTRIBUTED, "distributed-recorded", BASELINE_POD)]
    for earlier, later in itertools.pairwise(runs):
        assert earlier["status"]["completionTime"] <= later["metadata"]["creationTimestamp"]
    record = project.root / "results" / run_id(runs[1])
    assert (record / "_SUCCESS").is_file()
    assert [file.stat().st_size > 0 for file in (record / "result").glob("*.pt*")] == [True]
    assert_baseline_as_published(vsphere)
    assert "96 steps each against 288 (1 : 3.0)" in vsphere.copy("trainstack compare").out
    assert comparison_warnings(project) == []
    files = {line.split("  ")[1] for line in vsphere.type("trainstack ls data:. -s vsphere").out.splitlines()}
    assert {"model.pt", "metrics.jsonl"} <= files
    vsphere.copy("trainstack fetch")
    assert (project.root / "model.pt").stat().st_size > 1000
    assert_no_changes(project, "user")
    assert retained(project) == ["PersistentVolumeClaim user/data"]

    # Without `exclude`, the GPU variant is trained too, at the same time as the endless baseline.
    project.edit_stack(lambda config: config["trainstack:workloads"].pop("exclude"))
    up(project, "--refresh")
    assert_gpu_job_as_published(project, owner)
    done = project.trainstack("compare", BASELINE_POD, f"{DISTRIBUTED}-gpu", "--json")
    assert done.code == 0, done.text
    (warning,) = (message for message in json.loads(done.out)["warnings"] if "at the same time" in message)
    assert f"{DISTRIBUTED}-gpu ran on node local at the same time for" in warning
    vsphere.copy("trainstack destroy")
    assert_nothing_left(vsphere, "user")
    vsphere.assert_completed()


def assert_logs_of_each_replica(vsphere: Page) -> None:
    """Assert that the logs are complete and labelled by replica, and that one replica can be selected."""
    lines = vsphere.copy("trainstack logs").out.splitlines()
    replicas = ("master-0", "worker-0", "worker-1")
    for replica in replicas:
        replica_lines = [line for line in lines if replica in line]
        assert re.findall(r"epoch (\d)/6 step 16/16", "\n".join(replica_lines)) == list("123456"), lines
    alone = vsphere.type(f"trainstack logs {DISTRIBUTED} -s vsphere --role worker --index 1").out
    assert "step 16/16" in alone
    assert [replica for replica in replicas if replica in alone] in ([], ["worker-1"])


def assert_distributed_job_status(vsphere: Page) -> None:
    """Assert that `status` prints replicas, pods and the bound claim, and `events` the job's events."""
    output = vsphere.type(f"trainstack status {DISTRIBUTED} -s vsphere").out
    assert replica_counts(output) == {"master": (1, 1), "worker": (2, 2)}
    assert re.search(r"data +Bound", output)
    pods = vsphere.type(f"kubectl get pods -n user -l training.kubeflow.org/job-name={DISTRIBUTED}").out
    assert sorted(line.split()[0].removeprefix(f"{DISTRIBUTED}-") for line in pods.splitlines()[1:]) == [
        "master-0",
        "worker-0",
        "worker-1",
    ]
    assert "SuccessfulCreatePod" in vsphere.type(f"trainstack events {DISTRIBUTED} -s vsphere").out


def launched(project: Project) -> list[str]:
    """Return the workloads that have an object in the user's namespace, sorted."""
    bodies = launches(project, namespace="user")
    return sorted(body["metadata"]["labels"]["trainstack.dev/workload"] for body in bodies)


def assert_distributed_job_as_published(project: Project, owner: Person) -> None:
    """Assert the CPU variant: only the master mounts the claim, and the image's entry point runs."""
    job = await_succeeded(project, DISTRIBUTED, "user")
    assert job["metadata"]["name"] == DISTRIBUTED
    assert_replicas(owner, job, Master=1, Worker=2)
    assert (mounts(job, "Master"), mounts(job, "Worker")) == ([("data", "/opt/pytorch/output")], [])
    for spec in job["spec"]["pytorchReplicaSpecs"].values():
        assert spec["template"]["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
        container = only_container(spec["template"])
        assert values_of(container, "image", "imagePullPolicy") == [f"{VSPHERE}cpu-py3.8-v0.1", "IfNotPresent"]
        assert values_of(container, "command", "args") == [None, None]
    assert len(owner.pods(f"training.kubeflow.org/job-name={DISTRIBUTED}", "user")) == 3


def assert_gpu_job_as_published(project: Project, owner: Person) -> None:
    """Assert the GPU variant, which is excluded by default."""
    gpu = await_succeeded(project, f"{DISTRIBUTED}-gpu", "user")
    assert gpu["metadata"]["name"] == f"{DISTRIBUTED}-gpu"
    assert_replicas(owner, gpu, Master=1, Worker=1)
    for spec in gpu["spec"]["pytorchReplicaSpecs"].values():
        container = only_container(spec["template"])
        assert values_of(container, "image", "args") == [f"{VSPHERE}gpu-cu11.6-py3.8-v0.1", ["--backend", "nccl"]]
        assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    log = project.trainstack("logs", f"{DISTRIBUTED}-gpu", "--role", "master").out
    assert "no GPU found: using gloo instead of nccl\n" in log


def assert_baseline_as_published(vsphere: Page) -> None:
    """Wait for the baseline's first success, and assert its pod, which the cluster restarts afterwards."""
    vsphere.type(f"trainstack wait {BASELINE_POD} -s vsphere", seconds=SECONDS)

    def restarted() -> dict[str, Any] | None:
        body = launch(vsphere.project, BASELINE_POD, "user")
        (status,) = body["status"]["containerStatuses"]
        return body if status["restartCount"] else None

    pod: dict[str, Any] = eventually("the baseline is restarted", restarted, 120)
    assert (pod["kind"], pod["metadata"]["name"]) == ("Pod", BASELINE_POD)
    assert pod["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
    container = only_container(pod)
    assert values_of(container, "name", "image", "imagePullPolicy") == ["pytorch", BASELINE, "IfNotPresent"]
    assert pod["spec"]["restartPolicy"] == "Always"
    done = vsphere.project.trainstack("status", BASELINE_POD, "--json")
    (view,) = json.loads(done.out)
    assert values_of(view["launch"], "phase", "endless", "completed") == ["running", True, True]
    assert view["pods"][0]["last_attempt"]["exit_code"] == 0
    log = vsphere.type(f"trainstack logs {BASELINE_POD} -s vsphere").out
    # The attempt that succeeded is printed first.
    assert re.findall(r"epoch (\d)/6 step 48/48", log)[:6] == list("123456")
    assert "epoch 6/6 done" in log


def comparison_warnings(project: Project) -> list[str]:
    """Assert the output of `trainstack compare`, from the logs of unmanaged pods; return warnings of a shared node."""
    done = project.trainstack("compare", BASELINE_POD, DISTRIBUTED, "--json")
    assert done.code == 0, done.text
    compared = json.loads(done.out)
    alone, together = compared["runs"]
    assert (alone["epochs"], together["epochs"]) == (6, 6)
    assert (alone["world_size"], together["world_size"]) == (1, 3)
    # 48 steps in each epoch of the baseline, and 16 of each replica.
    assert alone["steps"] == {"0": 6 * 48}
    assert together["steps"] == {str(rank): 6 * 16 for rank in range(3)}
    assert together["steps_ratio"] == 3
    assert alone["loss"] != together["loss"]
    assert abs(alone["test_accuracy"] - together["test_accuracy"]) <= 0.02
    assert min(alone["test_accuracy"], together["test_accuracy"]) > 0.9
    assert (alone["finished"], together["finished"]) == (True, True)
    return [message for message in compared["warnings"] if "at the same time" in message]


def test_a_gloo_demo(azurestack: Page, owner: Person, registry: UsersRegistry) -> None:
    """The user's image trains on CPUs; the commands print conditions, replica states, events, node usage and logs."""
    project = azurestack.project
    execute_image_rows(azurestack, registry, GLOO, GLOO_IMAGE)
    azurestack.copy("pulumi up")
    await_node_usage(azurestack)
    printed = azurestack.copy("trainstack logs").out
    master = azurestack.type(f"trainstack logs {GLOO} -s azurestack --role master").out
    for pattern in (
        r"Using distributed PyTorch with gloo backend$",
        r"Train Epoch: 1 \[0/1440 \(0%\)\]\s+loss=\d\.\d{4}$",
        r"accuracy=0\.\d{4}$",
    ):
        replicas = {line.split()[0] for line in printed.splitlines() if re.search(pattern, line)}
        assert replicas == {"master-0", "worker-0", "worker-1", "worker-2"}, printed
        assert re.search(pattern, master, re.MULTILINE)

    job = await_succeeded(project, GLOO, "default")
    assert (job["metadata"]["name"], job["metadata"]["namespace"]) == (GLOO, "default")
    assert_replicas(owner, job, Master=1, Worker=3)
    assert mounts(job, "Master") == []
    assert [claim for claim, _ in mounts(job, "Worker")] == ["local-storage"]
    for spec in job["spec"]["pytorchReplicaSpecs"].values():
        container = only_container(spec["template"])
        assert values_of(container, "image", "args") == [GLOO_IMAGE, ["--backend", "gloo", "--no-cuda"]]
    conditions = job["status"]["conditions"]
    assert [condition["type"] for condition in conditions] == ["Created", "Running", "Succeeded"]
    assert all(condition["reason"] and condition["lastTransitionTime"] for condition in conditions)
    assert_gloo_demo_status(azurestack)
    storage = owner.get("storageclass", "local-storage")
    assert values_of(storage, "provisioner", "volumeBindingMode") == [
        "kubernetes.io/no-provisioner",
        "WaitForFirstConsumer",
    ]
    claim = owner.get("pvc", "local-storage", "default")
    assert claim["spec"]["volumeName"] == "local-storage-0"

    azurestack.copy("trainstack up")
    record = project.root / "results" / run_id(launch(project, "gloo-recorded", "default"))
    assert (record / "_SUCCESS").is_file()
    assert [file.stat().st_size > 0 for file in (record / "result").glob("*.pt*")] == [True]
    assert_no_changes(project, "default")
    assert retained(project) == ["PersistentVolumeClaim default/local-storage", "PersistentVolume local-storage-0"]
    azurestack.copy("trainstack destroy")
    assert_nothing_left(azurestack, "default")
    azurestack.assert_completed()


def await_node_usage(azurestack: Page) -> None:
    """Wait until `status` prints the node's CPU and memory usage while the demo trains."""

    def use() -> re.Match[str] | None:
        output = azurestack.type(f"trainstack status {GLOO} -s azurestack").out
        assert re.search(r"Succeeded +True", output) is None, f"it has ended before its node's use was seen: {output}"
        return re.search(r"│ local +(\d+\.\d\d) +(\d+\.\d\d)Gi", output)

    found: re.Match[str] = eventually("the node's use is shown", use, SECONDS)
    assert float(found[1]) > 0
    assert float(found[2]) > 0


def assert_gloo_demo_status(azurestack: Page) -> None:
    """Assert that the commands print the list, conditions, replica states, times and events."""
    assert re.search(rf"{GLOO}-\w+ +PyTorchJob +succeeded", azurestack.type("trainstack status -s azurestack").out)
    output = azurestack.copy("trainstack status").out
    for condition in ("Created +True", "Running +False", "Succeeded +True"):
        assert re.search(rf"{condition} +\w+ ago +PyTorchJob", output), output
    assert replica_counts(output) == {"master": (1, 1), "worker": (3, 3)}
    assert re.search(r"local-storage +Bound", output)
    status = launch(azurestack.project, GLOO, "default")["status"]
    times = [status[name].replace("T", " ").replace("Z", " UTC") for name in ("startTime", "completionTime")]
    assert re.search(rf"started +{times[0]}, \w+ ago", output), output
    assert re.search(rf"completed +{times[1]}, after \w+", output), output
    events = azurestack.type(f"trainstack events {GLOO} -s azurestack").out
    assert "SuccessfulCreatePod" in events
    assert "Started" in events


def test_models_in_a_folder_of_the_node(traindb: Page, owner: Person, registry: UsersRegistry) -> None:
    """The claim selects the volume by two labels, and the model is in the node's folder after the job."""
    project = traindb.project
    execute_image_rows(traindb, registry, MODELS, MODEL_IMAGE)
    traindb.copy("pulumi up")
    volume = owner.get("pv", "traindb-models-volume")
    assert {key: volume["metadata"]["labels"][key] for key in ("type", "name")} == {
        "type": "traindb",
        "name": "traindb-models-volume",
    }
    assert values_of(volume["spec"], "storageClassName", "accessModes") == ["manual", ["ReadWriteMany"]]
    assert volume["spec"]["capacity"]["storage"] == "10Gi"
    assert volume["spec"]["hostPath"]["path"] == "/home/traindbjst/traindb/models"
    printed = traindb.copy("trainstack logs").out
    assert {"master-0", "worker-0"} <= set(re.findall(r"\w+-\d\b", printed))
    master = traindb.type(f"trainstack logs {MODELS} -s traindb --role master").out
    assert re.search(r"Train Epoch: 1 \[640/1440 \(\d+%\)\]\s+Loss: \d\.\d{6}$", master, re.MULTILINE)
    assert re.search(r"Test set: Average loss: \d\.\d{4}, Accuracy: \d+/160 \(\d+%\)$", master, re.MULTILINE)
    traindb.type(f"trainstack wait {MODELS} -s traindb")
    job = await_succeeded(project, MODELS, "kubeflow")
    assert job["metadata"]["name"] == MODELS
    assert_replicas(owner, job, Master=1, Worker=1)
    claim = owner.get("pvc", "traindb-models-claim", "kubeflow")
    assert values_of(claim["spec"], "storageClassName", "volumeName") == ["manual", "traindb-models-volume"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "3Gi"
    assert claim["spec"]["selector"]["matchLabels"] == {"type": "traindb", "name": "traindb-models-volume"}
    for role, spec in job["spec"]["pytorchReplicaSpecs"].items():
        container = only_container(spec["template"])
        assert values_of(container, "image", "imagePullPolicy") == [MODEL_IMAGE, "Always"]
        command = ["python3", "/opt/mnist/src/mnist_training.py", "--epochs=1"]
        assert values_of(container, "command", "args") == [command, None]
        assert mounts(job, role) == [("traindb-models-claim", "/opt/mnist/models")]
    assert_training_status(traindb)

    traindb.copy("trainstack up")
    record = project.root / "results" / run_id(launch(project, "traindb-recorded", "kubeflow"))
    assert (record / "_SUCCESS").is_file()
    assert [file.stat().st_size > 0 for file in (record / "result").glob("*.pt*")] == [True]
    assert_no_changes(project, "kubeflow")
    traindb.type(f"kubectl delete pytorchjob {MODELS} -n kubeflow")
    assert "settled" in traindb.type("pulumi up -s traindb --refresh").out
    assert launches(project, MODELS, "kubeflow") == []
    # The model remains on the volume.
    assert "mnist_cnn.pt" in traindb.type("trainstack ls traindb-models-claim:. -s traindb").out
    traindb.copy("trainstack fetch")
    assert (project.root / "mnist_cnn.pt").stat().st_size > 1000
    assert retained(project) == [
        "PersistentVolumeClaim kubeflow/traindb-models-claim",
        "PersistentVolume traindb-models-volume",
    ]
    traindb.copy("trainstack destroy")
    assert_nothing_left(traindb, "kubeflow")
    traindb.assert_completed()


def assert_training_status(traindb: Page) -> None:
    """Assert that volume and claim are bound, both replicas have succeeded, and the job's label selects the pods."""
    output = traindb.type(f"trainstack status {MODELS} -s traindb").out
    assert replica_counts(output) == {"master": (1, 1), "worker": (1, 1)}
    assert re.search(r"traindb-models-claim +Bound", output)
    volume = traindb.type("kubectl get pv traindb-models-volume").out
    assert re.search(r"10Gi +RWX +\w+ +Bound +kubeflow/traindb-models-claim +manual", volume)
    pods = traindb.type(f"kubectl get pods -n kubeflow -l training.kubeflow.org/job-name={MODELS}").out
    names = {line.split()[0]: line.split()[2] for line in pods.splitlines()[1:]}
    assert names == {f"{MODELS}-master-0": "Completed", f"{MODELS}-worker-0": "Completed"}


def test_a_sweep_on_the_gpu_service(sweeps: Page, tenant: Person) -> None:
    """Four sets are trained in Jobs with one GPU each.

    The best set is read from logs, and remains known after pods and Jobs are deleted.
    """
    project = sweeps.project
    assert "4 sets" in sweeps.copy("trainstack sweep expand").out
    sweeps.type("trainstack sweep expand --check")
    rendered = [body for body in yaml.safe_load_all(sweeps.type("trainstack render -s sweeps").out) if body]
    assert [body["kind"] for body in rendered].count("Job") == 4
    sweeps.copy("pulumi up")
    sweeps.copy("trainstack sweep status")
    jobs = launches(project, SWEEP, NAMESPACE)
    assert [sorted(true_conditions(job) & {"Complete", "Failed"}) for job in jobs] == [["Complete"]] * 4
    numbers = set()
    for job in jobs:
        assert job["metadata"]["name"].startswith(f"{SWEEP}-")
        assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == QUEUE
        container = only_container(job["spec"]["template"])
        assert values_of(container, "name", "image", "command", "workingDir") == [
            "pytorch",
            "nvcr.io/nvidia/pytorch:22.01-py3",
            ["bash", "-c", "python main.py"],
            "/mnist-training",
        ]
        assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}
        numbers |= {(variable["name"], variable["value"]) for variable in container["env"]}
    assert numbers == {("JOB_ID", str(number)) for number in (1, 2, 3, 4)}
    assert json.loads(project.trainstack("sweep", "status", SWEEP, "--json").out)["counts"]["succeeded"] == 4
    assert len(re.findall(r" Job +succeeded ", sweeps.type("trainstack status -s sweeps").out)) == 4
    third = f"{SWEEP}-3 -s sweeps"
    assert re.search(r"Complete +True", sweeps.type(f"trainstack status {third}").out)
    assert "SuccessfulCreate" in sweeps.type(f"trainstack events {third}").out
    assert "batch size 128 of commit 3" in sweeps.type(f"trainstack logs {third}").out
    results = sweeps.copy("trainstack sweep results").out.splitlines()
    for batch_size, accuracy in ((32, "0.968"), (64, "1"), (128, "0.936"), (512, "0.552")):
        assert [line for line in results if {str(batch_size), accuracy, "succeeded"} <= set(line.split())], results
    best = best_set(project)
    assert best == (2, {"batch_size": 64}, 1.0)
    assert "batch_size 64" in sweeps.copy("trainstack sweep best").out

    sweeps.type(f"kubectl delete jobs -n eidf001 -l trainstack.dev/sweep={SWEEP}")
    eventually("the pods are gone", lambda: not tenant.pods(f"trainstack.dev/sweep={SWEEP}", NAMESPACE))
    assert best_set(project) == best
    up(project, "--refresh")
    assert launches(project, SWEEP, NAMESPACE) == []
    sweeps.copy("trainstack destroy")
    assert_nothing_left(sweeps, NAMESPACE)
    sweeps.assert_completed()


def best_set(project: Project) -> tuple[int, dict[str, Any], float]:
    """Return number, parameters and objective of the best set."""
    done = project.trainstack("sweep", "best", SWEEP, "--json")
    assert done.code == 0, done.text
    (best,) = json.loads(done.out)["best"]
    return best["number"], best["parameters"], best["value"]

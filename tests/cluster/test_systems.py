"""The reference systems, each by its environment file: up, data in, runs to their end, results out, clean-up.

What is asserted are the values of the published set-ups, on the live objects.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import Cluster
from devcluster.images import ensure_images, git
from tests.cluster import forge
from tests.cluster.lab import launch, launches, outputs, quiet, run_id, true_conditions
from tests.cluster.people import NAMESPACE, PRODUCT, QUEUE, Person
from tests.cluster.project import ROOT, Project, eventually
from workloads.digits.prepare import write_dataset

pytestmark = pytest.mark.cluster

GPU_IMAGE = "pytorch/pytorch:2.0.1-cuda11.7-cudnn8-devel"
VSPHERE = "projects.registry.vmware.com/models/kubeflow-docs/model-training-pytorch:1.11.0-"
BASELINE = "harbor-repo.vmware.com/kubeflow_learning/lab3-pytorch-training:dlc-0.0.1"
SWEEP = "mnist-single-job"
MAIN = """
import os, yaml
mine = yaml.safe_load(open("hyperparams.yml"))[int(os.environ["JOB_ID"]) - 1]["hyperparam_set"]
print("batch size", mine["batch_size"], "of commit NUMBER")
print(f"val_accuracy={1 - abs(mine['batch_size'] - 64) / 1000:.4f}")
"""
"""The main.py of the sweep's repository, which only prints."""
SECONDS = 300
"""How long a run may take on a machine that has much to do."""


@pytest.fixture(scope="module")
def copy(sites: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the project, for the environments of all systems."""
    return Project.copy(tmp_path_factory.mktemp("systems"), sites)


def environment(copy: Project, stack: str, kubeconfig: Path | None = None) -> Iterator[Project]:
    """An environment as it is committed; taken down in the end."""
    project = copy.environment(stack, kubeconfig or copy.kubeconfig)
    try:
        yield project
    finally:
        done = project.trainstack("destroy", "--yes")
        assert done.code == 0, done.text


@pytest.fixture
def eidf(copy: Project, tenant: Person) -> Iterator[Project]:
    """The tenant's environment, with nothing but the tenant's rights."""
    yield from environment(copy, "eidf", tenant.kubeconfig)


@pytest.fixture
def vsphere(copy: Project) -> Iterator[Project]:
    """The environment with the baseline."""
    yield from environment(copy, "vsphere")


@pytest.fixture
def azurestack(copy: Project) -> Iterator[Project]:
    """The gloo demo's."""
    yield from environment(copy, "azurestack")


@pytest.fixture
def traindb(copy: Project) -> Iterator[Project]:
    """The database's."""
    yield from environment(copy, "traindb")


@pytest.fixture
def sweeps(copy: Project, sites: Cluster, tenant: Person, owner: Person, tmp_path: Path) -> Iterator[Project]:
    """The tenant's sweep, with a repository that the cluster can reach."""
    ensure_images([git(), git(("git", "openssh-server"), serve_as=(forge.IMAGE,))], sites.registry, lambda _: None)
    try:
        server = forge.start(copy, tmp_path, MAIN)
        forge.secret(copy, NAMESPACE, "code-authority", "Opaque", ca_crt=server.authority)
        code = {"git": server.url("public"), "revision": server.commits[2], "secret": "code-authority"}
        for project in environment(copy, "sweeps", tenant.kubeconfig):
            project.edit_stack(lambda config: config["trainstack:sweeps"]["sweeps"][0]["run"]["code"].update(code))
            yield project
    finally:
        forge.stop(copy)
        owner.kubectl("delete", "secret", "code-authority", "-n", NAMESPACE, "--ignore-not-found")


def up(project: Project, *words: str) -> str:
    """`pulumi up`, as a person types it; what it printed."""
    done = project.up(*words)
    assert done.code == 0, done.text
    return done.text


def ended(project: Project, name: str, namespace: str) -> dict[str, Any]:
    """The object of a workload once it has ended, which must be well."""

    def found() -> dict[str, Any] | None:
        body = launch(project, name, namespace)
        ends = true_conditions(body) | {body.get("status", {}).get("phase")}
        assert "Failed" not in ends, project.trainstack("logs", name).text
        return body if ends & {"Complete", "Succeeded"} else None

    body: dict[str, Any] = eventually(f"{name} has ended", found, SECONDS)
    return body


def model_fetched(project: Project, name: str, namespace: str, folder: Path) -> None:
    """What a recorded run has made comes back, whole and with a model."""
    body = ended(project, name, namespace)
    done = project.trainstack("fetch", run_id(body), "--to", str(folder))
    assert done.code == 0, done.text
    assert (folder / "_SUCCESS").is_file()
    (model,) = (folder / "result").glob("*.pt*")
    assert model.stat().st_size > 0


def only_container(template: Mapping[str, Any]) -> dict[str, Any]:
    """The one container of a pod or a pod template."""
    (container,) = template["spec"]["containers"]
    return dict(container)


def picked(body: Mapping[str, Any], *keys: str) -> list[Any]:
    """Some values; None where there is none."""
    return [body.get(key) for key in keys]


def retained(project: Project) -> list[str]:
    """What the stack says that it leaves."""
    return [each.partition(":")[0] for each in outputs(project)["retained"]]


def test_a_shared_gpu_service(eidf: Project, tenant: Person, owner: Person, tmp_path: Path) -> None:
    """A tenant with rights in one namespace: loader, code and data, a Job, three successes, the model back here."""
    up(eidf)
    claim = tenant.get("pvc", "pytorch-pvc", "-n", NAMESPACE)["spec"]
    assert picked(claim, "storageClassName", "accessModes") == ["csi-cephfs-sc", ["ReadWriteMany"]]
    assert claim["resources"]["requests"]["storage"] == "2Gi"
    job = launch(eidf, "lightweight-job", NAMESPACE)
    the_loader_is_as_published(job)
    # Nothing that depends on the files is there before them.
    assert [body["metadata"]["generateName"] for body in launches(eidf, namespace=NAMESPACE)] == ["lightweight-job-"]
    assert assigned(owner, job) == {"cpu", "memory"}

    loader = copied_in(tenant, job, tmp_path)
    listed = tenant.kubectl("exec", "-n", NAMESPACE, loader, "--", "ls", "/mnt/ceph").out.split()
    assert {"example_pytorch_code.py", "train-images-idx3-ubyte"} <= {*listed}
    assert tenant.kubectl("delete", "job", "-n", NAMESPACE, job["metadata"]["name"]).code == 0

    up(eidf, "--refresh")
    job = launch(eidf, "pytorch-job", NAMESPACE)
    the_training_is_as_published(job, completions=1, backoff_limit=1, ttl_seconds=1800)
    assert assigned(owner, job) == {"cpu", "memory", "nvidia.com/gpu"}
    ended(eidf, "pytorch-job", NAMESPACE)
    assert "epoch 5/5" in eidf.trainstack("logs", "pytorch-job").out

    up(eidf, "--refresh")
    several = launch(eidf, "pytorch-job-multi", NAMESPACE)
    the_training_is_as_published(several, completions=3, backoff_limit=4, ttl_seconds=3600)
    assert ended(eidf, "pytorch-job-multi", NAMESPACE)["status"]["succeeded"] == 3
    quiet(eidf, NAMESPACE)

    model_fetched(eidf, "pytorch-job-recorded", NAMESPACE, tmp_path / "record")
    assert retained(eidf) == [f"PersistentVolumeClaim {NAMESPACE}/pytorch-pvc"]


def the_loader_is_as_published(job: dict[str, Any]) -> None:
    """A light Job on the queue that only waits, with the volume at /mnt/ceph."""
    assert job["metadata"]["name"].startswith("lightweight-job-")
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == QUEUE
    assert picked(job["spec"], "completions", "backoffLimit", "ttlSecondsAfterFinished") == [1, 1, 1800]
    container = only_container(job["spec"]["template"])
    assert picked(container, "name", "image", "command") == ["data-loader", "busybox", ["sleep", "infinity"]]
    asked = {"cpu": "1", "memory": "1Gi"}
    assert container["resources"] == {"requests": asked, "limits": asked}
    assert container["volumeMounts"] == [{"name": "pytorch-pvc", "mountPath": "/mnt/ceph"}]
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def the_training_is_as_published(job: dict[str, Any], completions: int, backoff_limit: int, ttl_seconds: int) -> None:
    """One GPU of the slice that the service's page names."""
    assert job["metadata"]["name"].startswith("pytorch-job-")
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == QUEUE
    spec = job["spec"]
    assert picked(spec, "completions", "backoffLimit", "ttlSecondsAfterFinished") == [
        completions,
        backoff_limit,
        ttl_seconds,
    ]
    container = only_container(spec["template"])
    command = ["python3", "/mnt/ceph/example_pytorch_code.py"]
    assert picked(container, "name", "image", "command") == ["pytorch-con", GPU_IMAGE, command]
    assert container["resources"] == {
        "requests": {"cpu": "2", "memory": "1Gi"},
        "limits": {"cpu": "4", "memory": "4Gi", "nvidia.com/gpu": "1"},
    }
    assert spec["template"]["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": PRODUCT}
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def copied_in(tenant: Person, job: dict[str, Any], folder: Path) -> str:
    """Code and data copied through the loader's pod, as the service's page says; the pod's name."""
    write_dataset(folder / "data")
    selector = f"job-name={job['metadata']['name']}"

    def running() -> str | None:
        phases = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in tenant.pods(selector, NAMESPACE)}
        return next((name for name, phase in phases.items() if phase == "Running"), None)

    pod: str = eventually("the loader runs", running)
    code = ROOT / "workloads" / "eidf" / "example_pytorch_code.py"
    for file in (code, *sorted((folder / "data").glob("train-*"))):
        done = tenant.kubectl("cp", str(file), f"{NAMESPACE}/{pod}:/mnt/ceph/{file.name}")
        assert done.code == 0, done.text
    return pod


def assigned(owner: Person, job: dict[str, Any]) -> set[str]:
    """The resources for which Kueue gave an active Job's pods quota, all on the flavor with the product's label."""

    def admission() -> dict[str, str] | None:
        selector = f"kueue.x-k8s.io/job-uid={job['metadata']['uid']}"
        for workload in owner.items("workloads.kueue.x-k8s.io", "-n", NAMESPACE, "-l", selector):
            admitted = workload.get("status", {}).get("admission")
            if admitted:
                (pod_set,) = admitted["podSetAssignments"]
                return dict(pod_set["flavors"])
        return None

    flavors: dict[str, str] = eventually(f"{job['metadata']['name']} is admitted", admission)
    assert {*flavors.values()} == {"a100-mig-1g-5gb"}
    return {*flavors}


def the_roles_are(owner: Person, body: dict[str, Any], **replicas: int) -> None:
    """The replicas of a PyTorchJob, each with a pod that bears its name, all of which have succeeded."""
    specs = body["spec"]["pytorchReplicaSpecs"]
    assert {role: spec["replicas"] for role, spec in specs.items()} == replicas
    assert {spec["restartPolicy"] for spec in specs.values()} == {"OnFailure"}
    metadata = body["metadata"]

    def succeeded() -> dict[str, int | None]:
        # The job has succeeded with its master; the operator counts the workers with its next look.
        states = owner.get("pytorchjob", metadata["name"], "-n", metadata["namespace"])["status"]["replicaStatuses"]
        return {role: state.get("succeeded") for role, state in states.items()}

    eventually(f"the states are {replicas}", lambda: succeeded() == replicas, 30)


def mounts(body: dict[str, Any], role: str) -> list[tuple[str, str]]:
    """Claim and path of what a role's pods mount."""
    template = body["spec"]["pytorchReplicaSpecs"][role]["template"]
    claims = {each["name"]: each["persistentVolumeClaim"]["claimName"] for each in template["spec"].get("volumes", ())}
    return [(claims[each["name"]], each["mountPath"]) for each in only_container(template).get("volumeMounts", ())]


def test_distributed_training_beside_its_baseline(vsphere: Project, owner: Person, tmp_path: Path) -> None:
    """Same data, 1 replica against 3, one after the other: a third of the steps on each, the same accuracy."""
    crd = owner.get("crd", "pytorchjobs.kubeflow.org")
    assert crd["spec"]["group"] == "kubeflow.org"
    before = owner.get("namespace", "user")["metadata"]
    up(vsphere)
    claim = owner.get("pvc", "data", "-n", "user")
    assert claim["metadata"]["labels"]["app"] == "data"
    assert picked(claim["spec"], "storageClassName", "accessModes") == ["k8s-storage-policy", ["ReadWriteOnce"]]
    assert claim["spec"]["resources"]["requests"]["storage"] == "10Gi"
    # The namespace is its owner's: nothing is added to it.
    after = owner.get("namespace", "user")["metadata"]
    assert picked(after, "uid", "labels", "annotations") == picked(before, "uid", "labels", "annotations")
    assert owner.items("networkpolicies", "-n", "user") == []

    assert launched(vsphere) == ["pytorchjob-distributed-training"]
    the_distributed_job_is_as_published(vsphere, owner)
    up(vsphere, "--refresh")
    assert launched(vsphere) == ["distributed-recorded", "pytorchjob-distributed-training"]
    model_fetched(vsphere, "distributed-recorded", "user", tmp_path)
    up(vsphere, "--refresh")
    the_baseline_is_as_published(vsphere)
    assert the_comparison_holds(vsphere) == []
    quiet(vsphere, "user")
    assert retained(vsphere) == ["PersistentVolumeClaim user/data"]

    # One line less, and the GPU's variant is trained too: beside the baseline, which has no end.
    vsphere.edit_stack(lambda config: config["trainstack:workloads"].pop("exclude"))
    up(vsphere, "--refresh")
    the_gpu_job_is_as_published(vsphere, owner)
    done = vsphere.trainstack("compare", "pytorch-training-single-pod", "pytorchjob-distributed-training-gpu", "--json")
    assert done.code == 0, done.text
    (warning,) = (each for each in json.loads(done.out)["warnings"] if "at the same time" in each)
    assert "pytorchjob-distributed-training-gpu ran on node local at the same time for" in warning


def launched(vsphere: Project) -> list[str]:
    """The workloads that have an object in the user's namespace, sorted."""
    bodies = launches(vsphere, namespace="user")
    return sorted(body["metadata"]["labels"]["trainstack.dev/workload"] for body in bodies)


def the_distributed_job_is_as_published(vsphere: Project, owner: Person) -> None:
    """On CPUs: the claim on the master alone, the image's own entry point."""
    job = ended(vsphere, "pytorchjob-distributed-training", "user")
    assert job["metadata"]["name"] == "pytorchjob-distributed-training"
    the_roles_are(owner, job, Master=1, Worker=2)
    assert (mounts(job, "Master"), mounts(job, "Worker")) == ([("data", "/opt/pytorch/output")], [])
    for spec in job["spec"]["pytorchReplicaSpecs"].values():
        assert spec["template"]["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
        container = only_container(spec["template"])
        assert picked(container, "image", "imagePullPolicy") == [f"{VSPHERE}cpu-py3.8-v0.1", "IfNotPresent"]
        assert picked(container, "command", "args") == [None, None]
    assert len(owner.pods("training.kubeflow.org/job-name=pytorchjob-distributed-training", "user")) == 3


def the_gpu_job_is_as_published(vsphere: Project, owner: Person) -> None:
    """The variant that is left out by default."""
    gpu = ended(vsphere, "pytorchjob-distributed-training-gpu", "user")
    assert gpu["metadata"]["name"] == "pytorchjob-distributed-training-gpu"
    the_roles_are(owner, gpu, Master=1, Worker=1)
    for spec in gpu["spec"]["pytorchReplicaSpecs"].values():
        container = only_container(spec["template"])
        assert picked(container, "image", "args") == [f"{VSPHERE}gpu-cu11.6-py3.8-v0.1", ["--backend", "nccl"]]
        assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}


def the_baseline_is_as_published(vsphere: Project) -> None:
    """The cluster restarts it after it has succeeded, so it is followed to its first success, and restarted then."""
    done = vsphere.trainstack("wait", "pytorch-training-single-pod", "--timeout", str(SECONDS))
    assert done.code == 0, done.text

    def restarted() -> dict[str, Any] | None:
        body = launch(vsphere, "pytorch-training-single-pod", "user")
        (status,) = body["status"]["containerStatuses"]
        return body if status["restartCount"] else None

    pod: dict[str, Any] = eventually("the baseline is restarted", restarted, 120)
    assert (pod["kind"], pod["metadata"]["name"]) == ("Pod", "pytorch-training-single-pod")
    assert pod["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
    container = only_container(pod)
    assert picked(container, "name", "image", "imagePullPolicy") == ["pytorch", BASELINE, "IfNotPresent"]
    assert pod["spec"]["restartPolicy"] == "Always"
    done = vsphere.trainstack("status", "pytorch-training-single-pod", "--json")
    (view,) = json.loads(done.out)
    assert picked(view["launch"], "phase", "endless", "completed") == ["running", True, True]
    assert view["pods"][0]["last_attempt"]["exit_code"] == 0
    assert "epoch 6/6 done" in vsphere.trainstack("logs", "pytorch-training-single-pod").out


def the_comparison_holds(vsphere: Project) -> list[str]:
    """By the command that makes it, from the logs of pods that know nothing of us; the warnings of a shared node."""
    done = vsphere.trainstack("compare", "pytorch-training-single-pod", "pytorchjob-distributed-training", "--json")
    assert done.code == 0, done.text
    compared = json.loads(done.out)
    alone, together = compared["runs"]
    assert (alone["epochs"], together["epochs"]) == (6, 6)
    assert (alone["world_size"], together["world_size"]) == (1, 3)
    # 48 in each epoch, against 16.
    assert alone["steps"] == {"0": 6 * 48}
    assert together["steps"] == {str(rank): 6 * 16 for rank in range(3)}
    assert together["steps_ratio"] == 3
    assert alone["loss"] != together["loss"]
    assert abs(alone["test_accuracy"] - together["test_accuracy"]) <= 0.02
    assert (alone["finished"], together["finished"]) == (True, True)
    return [each for each in compared["warnings"] if "at the same time" in each]


def test_a_gloo_demo(azurestack: Project, owner: Person, tmp_path: Path) -> None:
    """Conditions with reasons and times, replica states, events, a local disk, the master's log."""
    up(azurestack)
    job = ended(azurestack, "pytorch-dist-mnist-gloo-demo", "default")
    assert (job["metadata"]["name"], job["metadata"]["namespace"]) == ("pytorch-dist-mnist-gloo-demo", "default")
    the_roles_are(owner, job, Master=1, Worker=3)
    assert mounts(job, "Master") == []
    assert [claim for claim, _ in mounts(job, "Worker")] == ["local-storage"]
    for spec in job["spec"]["pytorchReplicaSpecs"].values():
        container = only_container(spec["template"])
        expected = ["kubeflow/pytorch-dist-mnist-test:1.0", ["--backend", "gloo", "--no-cuda"]]
        assert picked(container, "image", "args") == expected
    conditions = job["status"]["conditions"]
    assert [each["type"] for each in conditions] == ["Created", "Running", "Succeeded"]
    assert all(each["reason"] and each["lastTransitionTime"] for each in conditions)
    assert job["status"]["startTime"] <= job["status"]["completionTime"]
    storage = owner.get("storageclass", "local-storage")
    assert picked(storage, "provisioner", "volumeBindingMode") == [
        "kubernetes.io/no-provisioner",
        "WaitForFirstConsumer",
    ]
    claim = owner.get("pvc", "local-storage", "-n", "default")
    assert claim["spec"]["volumeName"] == "local-storage-0"
    printed = azurestack.trainstack("logs", "pytorch-dist-mnist-gloo-demo").out
    assert "Using distributed PyTorch with gloo backend" in printed
    assert re.search(r"Train Epoch: 1 \[0/1440 \(0%\)\]\s+loss=", printed)
    model_fetched(azurestack, "gloo-recorded", "default", tmp_path)
    quiet(azurestack, "default")
    assert retained(azurestack) == ["PersistentVolumeClaim default/local-storage", "PersistentVolume local-storage-0"]


def test_models_on_a_folder_of_the_node(traindb: Project, owner: Person, tmp_path: Path) -> None:
    """The claim finds the volume by both labels; the model is in the node's folder when the job is done."""
    up(traindb)
    volume = owner.get("pv", "traindb-models-volume")
    assert {key: volume["metadata"]["labels"][key] for key in ("type", "name")} == {
        "type": "traindb",
        "name": "traindb-models-volume",
    }
    assert picked(volume["spec"], "storageClassName", "accessModes") == ["manual", ["ReadWriteMany"]]
    assert volume["spec"]["capacity"]["storage"] == "10Gi"
    assert volume["spec"]["hostPath"]["path"] == "/home/traindbjst/traindb/models"
    job = ended(traindb, "traindb-training-mnist", "kubeflow")
    assert job["metadata"]["name"] == "traindb-training-mnist"
    the_roles_are(owner, job, Master=1, Worker=1)
    claim = owner.get("pvc", "traindb-models-claim", "-n", "kubeflow")
    assert picked(claim["spec"], "storageClassName", "volumeName") == ["manual", "traindb-models-volume"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "3Gi"
    assert claim["spec"]["selector"]["matchLabels"] == {"type": "traindb", "name": "traindb-models-volume"}
    for role, spec in job["spec"]["pytorchReplicaSpecs"].items():
        container = only_container(spec["template"])
        assert picked(container, "image", "imagePullPolicy") == ["joleedocker/traindb-training-mnist:1.0", "Always"]
        command = ["python3", "/opt/mnist/src/mnist_training.py", "--epochs=1"]
        assert picked(container, "command", "args") == [command, None]
        assert mounts(job, role) == [("traindb-models-claim", "/opt/mnist/models")]
    assert "Train Epoch: 1 [640/1440 (" in traindb.trainstack("logs", "traindb-training-mnist").out
    done = traindb.trainstack("ls", "traindb-models-claim:.", "--json")
    assert done.code == 0, done.text
    assert "mnist_cnn.pt" in json.loads(done.out)
    model_fetched(traindb, "traindb-recorded", "kubeflow", tmp_path)
    quiet(traindb, "kubeflow")
    assert owner.kubectl("delete", "pytorchjob", "-n", "kubeflow", "traindb-training-mnist").code == 0
    assert "settled" in up(traindb, "--refresh")


def test_a_sweep_on_the_gpu_service(sweeps: Project, tenant: Person) -> None:
    """A Job and a GPU for each of four sets; the best is read from logs, and known when pods and Jobs are gone."""
    up(sweeps)

    def succeeded() -> list[dict[str, Any]]:
        jobs = launches(sweeps, SWEEP, NAMESPACE)
        assert not [job for job in jobs if "Failed" in true_conditions(job)]
        return jobs if len([job for job in jobs if "Complete" in true_conditions(job)]) == 4 else []

    jobs: list[dict[str, Any]] = eventually("four trials have succeeded", succeeded, SECONDS)
    numbers = set()
    for job in jobs:
        assert job["metadata"]["name"].startswith(f"{SWEEP}-")
        assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == QUEUE
        container = only_container(job["spec"]["template"])
        assert picked(container, "image", "command", "workingDir") == [
            "nvcr.io/nvidia/pytorch:22.01-py3",
            ["bash", "-c", "python main.py"],
            "/mnist-training",
        ]
        assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}
        numbers |= {(variable["name"], variable["value"]) for variable in container["env"]}
    assert numbers == {("JOB_ID", str(number)) for number in (1, 2, 3, 4)}
    assert json.loads(sweeps.trainstack("sweep", "status", SWEEP, "--json").out)["counts"]["succeeded"] == 4
    assert "succeeded" in sweeps.trainstack("status", f"{SWEEP}-3").text
    assert "batch size 128 of commit 3" in sweeps.trainstack("logs", f"{SWEEP}-3").out
    best = the_best(sweeps)
    assert best == (2, {"batch_size": 64}, 1.0)

    done = tenant.kubectl("delete", "jobs", "-n", NAMESPACE, "-l", f"trainstack.dev/sweep={SWEEP}")
    assert done.code == 0, done.text
    eventually("the pods are gone", lambda: not tenant.pods(f"trainstack.dev/sweep={SWEEP}", NAMESPACE))
    assert the_best(sweeps) == best
    up(sweeps, "--refresh")
    assert launches(sweeps, SWEEP, NAMESPACE) == []


def the_best(project: Project) -> tuple[int, dict[str, Any], float]:
    """Number, parameters and objective of the best set."""
    done = project.trainstack("sweep", "best", SWEEP, "--json")
    assert done.code == 0, done.text
    (best,) = json.loads(done.out)["best"]
    return best["number"], best["parameters"], best["value"]

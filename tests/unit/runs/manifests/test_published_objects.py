"""The settings can express objects that users write by hand, with only the product's labels in addition."""

from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
import yaml

from tests.copies import copy_into
from trainstack.objects.labels import LAUNCH, MANAGED_BY, RUN, SET, SKIP_AWAIT, STACK, SWEEP, WORKLOAD, Manifest
from trainstack.settings.loading.load import load
from trainstack.stack_objects.inputs import Inputs, read_inputs
from trainstack.stack_objects.stack_objects import StackObjects

ROOT = Path(__file__).resolve().parents[4]
PRODUCT_LABELS = {LAUNCH, MANAGED_BY, RUN, SET, STACK, SWEEP, WORKLOAD}
"""The labels that the product adds to objects and their pods."""


def built(root: Path, run: str) -> Manifest:
    """Return the object of a run that an environment's file declares, without the product's labels."""
    lines = indent(dedent(run).strip("\n"), "      ")
    (root / "Pulumi.test.yaml").write_text(f"config:\n  trainstack:workloads:\n    runs:\n{lines}\n", encoding="utf-8")
    (only,) = StackObjects(load(root, "test"), Inputs()).runs
    return dict(without_labels(only.manifest))


def without_labels(part: Any) -> Any:
    """Return the part without PRODUCT_LABELS, the engine's annotation, and maps that are empty then."""
    if isinstance(part, list):
        return [without_labels(item) for item in part]
    if not isinstance(part, dict):
        return part
    result = {}
    for key, value in part.items():
        removed = {"labels": PRODUCT_LABELS, "annotations": {SKIP_AWAIT}}.get(key, set())
        kept = {name: text for name, text in value.items() if name not in removed} if removed else without_labels(value)
        if not (key in ("labels", "annotations", "metadata") and not kept):
            result[key] = kept
    return result


GPU_JOB = """
  namespace: eidf000ns
  queue: eidf000ns-user-queue
  kind: Job
  naming: generated
  managed: false
  security: baseline
  container: pytorch-con
  image: {name: "pytorch/pytorch:2.0.1-cuda11.7-cudnn8-devel"}
  command: [python3, /mnt/ceph/example_pytorch_code.py]
  volumes: [{volume: pytorch-pvc, mountPath: /mnt/ceph}]
  resources:
    requests: {cpu: 2, memory: 1Gi}
    limits: {cpu: 4, memory: 4Gi, nvidia.com/gpu: 1}
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB-MIG-1g.5gb}
"""


def gpu_job(completions: int, backoff_limit: int, ttl_seconds: int) -> str:
    """Return the shared GPU service's training Job."""
    return f"""
    apiVersion: batch/v1
    kind: Job
    metadata:
      generateName: pytorch-job-
      namespace: eidf000ns
      labels: {{kueue.x-k8s.io/queue-name: eidf000ns-user-queue}}
    spec:
      completions: {completions}
      backoffLimit: {backoff_limit}
      ttlSecondsAfterFinished: {ttl_seconds}
      template:
        spec:
          containers:
            - name: pytorch-con
              image: pytorch/pytorch:2.0.1-cuda11.7-cudnn8-devel
              command: [python3, /mnt/ceph/example_pytorch_code.py]
              volumeMounts: [{{mountPath: /mnt/ceph, name: pytorch-pvc}}]
              resources:
                requests: {{cpu: "2", memory: 1Gi}}
                limits: {{cpu: "4", memory: 4Gi, nvidia.com/gpu: "1"}}
          nodeSelector: {{nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB-MIG-1g.5gb}}
          restartPolicy: Never
          volumes: [{{name: pytorch-pvc, persistentVolumeClaim: {{claimName: pytorch-pvc}}}}]
    """


LOADER = (
    """
    - name: lightweight-job
      namespace: eidf000ns
      queue: eidf000ns-user-queue
      kind: DataLoader
      naming: generated
      managed: false
      security: baseline
      image: {name: busybox}
      command: [sleep, infinity]
      completions: 1
      backoffLimit: 1
      ttlSecondsAfterFinished: 1800
      volumes: [{volume: pytorch-pvc, mountPath: /mnt/ceph}]
      resources:
        requests: {cpu: 1, memory: 1Gi}
        limits: {cpu: 1, memory: 1Gi}
    """,
    """
    apiVersion: batch/v1
    kind: Job
    metadata:
      generateName: lightweight-job-
      namespace: eidf000ns
      labels: {kueue.x-k8s.io/queue-name: eidf000ns-user-queue}
    spec:
      completions: 1
      backoffLimit: 1
      ttlSecondsAfterFinished: 1800
      template:
        spec:
          containers:
            - name: data-loader
              image: busybox
              command: [sleep, infinity]
              volumeMounts: [{mountPath: /mnt/ceph, name: pytorch-pvc}]
              resources:
                requests: {cpu: "1", memory: 1Gi}
                limits: {cpu: "1", memory: 1Gi}
          restartPolicy: Never
          volumes: [{name: pytorch-pvc, persistentVolumeClaim: {claimName: pytorch-pvc}}]
    """,
)

VMWARE = "projects.registry.vmware.com/models/kubeflow-docs/model-training-pytorch"

CPU_TORCH = (
    f"""
    - name: pytorchjob-distributed-training
      namespace: user
      kind: PyTorchJob
      naming: fixed
      managed: false
      security: baseline
      image: {{name: "{VMWARE}:1.11.0-cpu-py3.8-v0.1"}}
      imagePullPolicy: IfNotPresent
      annotations: {{sidecar.istio.io/inject: "false"}}
      roles:
        Master:
          restartPolicy: OnFailure
          volumes: [{{volume: data, mountPath: /opt/pytorch/output}}]
        Worker: {{replicas: 2, restartPolicy: OnFailure}}
    """,
    f"""
    apiVersion: kubeflow.org/v1
    kind: PyTorchJob
    metadata: {{name: pytorchjob-distributed-training, namespace: user}}
    spec:
      pytorchReplicaSpecs:
        Master:
          replicas: 1
          restartPolicy: OnFailure
          template:
            metadata: {{annotations: {{sidecar.istio.io/inject: "false"}}}}
            spec:
              containers:
                - name: pytorch
                  image: {VMWARE}:1.11.0-cpu-py3.8-v0.1
                  imagePullPolicy: IfNotPresent
                  volumeMounts: [{{name: data, mountPath: /opt/pytorch/output}}]
              volumes: [{{name: data, persistentVolumeClaim: {{claimName: data}}}}]
        Worker:
          replicas: 2
          restartPolicy: OnFailure
          template:
            metadata: {{annotations: {{sidecar.istio.io/inject: "false"}}}}
            spec:
              containers:
                - {{name: pytorch, image: "{VMWARE}:1.11.0-cpu-py3.8-v0.1", imagePullPolicy: IfNotPresent}}
    """,
)

GPU_TORCH = (
    f"""
    - name: pytorchjob-distributed-training-gpu
      namespace: user
      kind: PyTorchJob
      naming: fixed
      managed: false
      security: baseline
      image: {{name: "{VMWARE}:1.11.0-gpu-cu11.6-py3.8-v0.1"}}
      imagePullPolicy: IfNotPresent
      args: [--backend, nccl]
      annotations: {{sidecar.istio.io/inject: "false"}}
      resources: {{limits: {{nvidia.com/gpu: 1}}}}
      roles:
        Master:
          restartPolicy: OnFailure
          volumes: [{{volume: data, mountPath: /opt/pytorch/output}}]
        Worker: {{restartPolicy: OnFailure}}
    """,
    f"""
    apiVersion: kubeflow.org/v1
    kind: PyTorchJob
    metadata: {{name: pytorchjob-distributed-training-gpu, namespace: user}}
    spec:
      pytorchReplicaSpecs:
        Master:
          replicas: 1
          restartPolicy: OnFailure
          template:
            metadata: {{annotations: {{sidecar.istio.io/inject: "false"}}}}
            spec:
              containers:
                - name: pytorch
                  image: {VMWARE}:1.11.0-gpu-cu11.6-py3.8-v0.1
                  imagePullPolicy: IfNotPresent
                  args: [--backend, nccl]
                  resources: {{limits: {{nvidia.com/gpu: "1"}}}}
                  volumeMounts: [{{name: data, mountPath: /opt/pytorch/output}}]
              volumes: [{{name: data, persistentVolumeClaim: {{claimName: data}}}}]
        Worker:
          replicas: 1
          restartPolicy: OnFailure
          template:
            metadata: {{annotations: {{sidecar.istio.io/inject: "false"}}}}
            spec:
              containers:
                - name: pytorch
                  image: {VMWARE}:1.11.0-gpu-cu11.6-py3.8-v0.1
                  imagePullPolicy: IfNotPresent
                  args: [--backend, nccl]
                  resources: {{limits: {{nvidia.com/gpu: "1"}}}}
    """,
)

BASELINE = (
    """
    - name: pytorch-training-single-pod
      namespace: user
      kind: Pod
      naming: fixed
      managed: false
      security: baseline
      container: pytorch
      image: {name: "harbor-repo.vmware.com/kubeflow_learning/lab3-pytorch-training:dlc-0.0.1"}
      imagePullPolicy: IfNotPresent
      annotations: {sidecar.istio.io/inject: "false"}
      volumes: [{volume: data, mountPath: /opt/pytorch/output}]
    """,
    """
    apiVersion: v1
    kind: Pod
    metadata:
      name: pytorch-training-single-pod
      namespace: user
      annotations: {sidecar.istio.io/inject: "false"}
    spec:
      containers:
        - name: pytorch
          image: harbor-repo.vmware.com/kubeflow_learning/lab3-pytorch-training:dlc-0.0.1
          imagePullPolicy: IfNotPresent
          volumeMounts: [{name: data, mountPath: /opt/pytorch/output}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
    """,
)

GLOO = (
    """
    - name: pytorch-dist-mnist-gloo-demo
      namespace: default
      kind: PyTorchJob
      naming: fixed
      managed: false
      security: baseline
      image: {name: "kubeflow/pytorch-dist-mnist-test:1.0"}
      args: [--backend, gloo, --no-cuda]
      roles:
        Master: {restartPolicy: OnFailure}
        Worker:
          replicas: 3
          restartPolicy: OnFailure
          volumes: [{volume: local-storage, mountPath: /mnt/data}]
    """,
    """
    apiVersion: kubeflow.org/v1
    kind: PyTorchJob
    metadata: {name: pytorch-dist-mnist-gloo-demo, namespace: default}
    spec:
      pytorchReplicaSpecs:
        Master:
          replicas: 1
          restartPolicy: OnFailure
          template:
            spec:
              containers:
                - name: pytorch
                  image: kubeflow/pytorch-dist-mnist-test:1.0
                  args: [--backend, gloo, --no-cuda]
        Worker:
          replicas: 3
          restartPolicy: OnFailure
          template:
            spec:
              containers:
                - name: pytorch
                  image: kubeflow/pytorch-dist-mnist-test:1.0
                  args: [--backend, gloo, --no-cuda]
                  volumeMounts: [{name: local-storage, mountPath: /mnt/data}]
              volumes: [{name: local-storage, persistentVolumeClaim: {claimName: local-storage}}]
    """,
)

FASHION = (
    """
    - name: traindb-training-mnist
      namespace: kubeflow
      kind: PyTorchJob
      naming: fixed
      managed: false
      security: baseline
      image: {name: "joleedocker/traindb-training-mnist:1.0"}
      imagePullPolicy: Always
      command: [python3, /opt/mnist/src/mnist_training.py, --epochs=1]
      volumes: [{volume: traindb-models-claim, mountPath: /opt/mnist/models}]
      roles:
        Master: {restartPolicy: OnFailure}
        Worker: {restartPolicy: OnFailure}
    """,
    """
    apiVersion: kubeflow.org/v1
    kind: PyTorchJob
    metadata: {name: traindb-training-mnist, namespace: kubeflow}
    spec:
      pytorchReplicaSpecs:
        Master: &role
          replicas: 1
          restartPolicy: OnFailure
          template:
            spec:
              containers:
                - name: pytorch
                  image: joleedocker/traindb-training-mnist:1.0
                  imagePullPolicy: Always
                  command: [python3, /opt/mnist/src/mnist_training.py, --epochs=1]
                  volumeMounts: [{name: traindb-models-claim, mountPath: /opt/mnist/models}]
              volumes: [{name: traindb-models-claim, persistentVolumeClaim: {claimName: traindb-models-claim}}]
        Worker: *role
    """,
)

ELASTIC = (
    """
    - name: elastic-example-echo
      namespace: default
      kind: PyTorchJob
      naming: fixed
      managed: false
      security: baseline
      image: {name: "ghcr.io/kubeflow/training-v1/pytorch-elastic-example-echo:latest"}
      imagePullPolicy: IfNotPresent
      command: [python, -m, torch.distributed.run, --rdzv_backend=c10d, ./echo.py]
      env: {LOGLEVEL: DEBUG}
      nprocPerNode: "2"
      elastic: {rdzvBackend: c10d, minReplicas: 1, maxReplicas: 2, maxRestarts: 100}
      roles:
        Worker: {replicas: 2}
    """,
    """
    apiVersion: kubeflow.org/v1
    kind: PyTorchJob
    metadata: {name: elastic-example-echo, namespace: default}
    spec:
      nprocPerNode: "2"
      elasticPolicy: {rdzvBackend: c10d, minReplicas: 1, maxReplicas: 2, maxRestarts: 100}
      pytorchReplicaSpecs:
        Worker:
          replicas: 2
          template:
            spec:
              containers:
                - name: pytorch
                  image: ghcr.io/kubeflow/training-v1/pytorch-elastic-example-echo:latest
                  imagePullPolicy: IfNotPresent
                  env: [{name: LOGLEVEL, value: DEBUG}]
                  command: [python, -m, torch.distributed.run, --rdzv_backend=c10d, ./echo.py]
    """,
)


def gpu_run(**changes: int) -> str:
    """Return the run that declares this Job."""
    more = "".join(f"\n  {key}: {value}" for key, value in changes.items())
    return f"- name: pytorch-job{GPU_JOB.rstrip()}{more}"


@pytest.mark.parametrize(
    ("run", "published"),
    [
        pytest.param(*LOADER, id="shared GPU service: data loader"),
        pytest.param(
            gpu_run(completions=1, backoffLimit=1, ttlSecondsAfterFinished=1800),
            gpu_job(1, 1, 1800),
            id="shared GPU service: training",
        ),
        pytest.param(
            gpu_run(completions=3, backoffLimit=4, ttlSecondsAfterFinished=3600),
            gpu_job(3, 4, 3600),
            id="shared GPU service: three runs",
        ),
        pytest.param(*CPU_TORCH, id="operator on vSphere: CPU"),
        pytest.param(*GPU_TORCH, id="operator on vSphere: GPU"),
        pytest.param(*BASELINE, id="operator on vSphere: baseline"),
        pytest.param(*GLOO, id="gloo demo"),
        pytest.param(*FASHION, id="static host volume"),
        pytest.param(*ELASTIC, id="elastic, without a master"),
    ],
)
def test_the_settings_express_a_published_object(tmp_path: Path, run: str, published: str) -> None:
    """The objects are equal: an unmanaged workload has only the values of its settings."""
    assert built(tmp_path, run) == yaml.load(published, yaml.CSafeLoader)


def claim(metadata: str, storage_class: str, mode: str, size: str, more: str = "") -> str:
    """Return a published claim; its `volumeMode` is the API server's default."""
    return f"""
    apiVersion: v1
    kind: PersistentVolumeClaim
    metadata: {{{metadata}}}
    spec:
      accessModes: [{mode}]
      resources: {{requests: {{storage: {size}}}}}
      storageClassName: {storage_class}
      volumeMode: Filesystem
      {more}
    """


MODELS_VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: traindb-models-volume, labels: {type: traindb, name: traindb-models-volume}}
spec:
  accessModes: [ReadWriteMany]
  capacity: {storage: 10Gi}
  # The folder is prepared manually: the kubelet must not create one that root owns.
  hostPath: {path: /home/traindbjst/traindb/models, type: Directory}
  storageClassName: manual
  # Defaults of the API server.
  persistentVolumeReclaimPolicy: Retain
  volumeMode: Filesystem
"""
MODELS_SELECTOR = "selector: {matchLabels: {type: traindb, name: traindb-models-volume}}"
TRIAL = """
apiVersion: batch/v1
kind: Job
metadata:
  name: mnist-single-job-3
  namespace: eidf001
  labels: {kueue.x-k8s.io/queue-name: eidf001-user-queue}
spec:
  template:
    spec:
      containers:
        - name: pytorch
          image: nvcr.io/nvidia/pytorch:22.01-py3
          command: [bash, -c, python main.py]
          workingDir: /mnist-training
          env: [{name: JOB_ID, value: "3"}]
          resources: {limits: {nvidia.com/gpu: "1"}}
          volumeMounts:
            - {name: trainstack-code, mountPath: /mnist-training, subPath: code}
            # The sets of the environment replace the repository's.
            - name: trainstack-sweep
              mountPath: /mnist-training/hyperparams.yml
              subPath: hyperparams.yml
              readOnly: true
      restartPolicy: Never
"""


def service(published: str) -> str:
    """Return an object of the shared GPU service in the tenant's namespace of the committed environments."""
    return published.replace("eidf000ns", "eidf001")


def declared(root: Path, stack: str) -> list[Manifest]:
    """Return the objects of a committed environment with all runs, and with fixed names for trials."""
    copy_into(root, "defaults.yaml", "sweeps", "workloads")
    content = yaml.load((ROOT / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    content["config"].get("trainstack:workloads", {}).pop("exclude", None)
    for sweep in content["config"].get("trainstack:sweeps", {}).get("sweeps", ()):
        sweep["run"]["naming"] = "fixed"
    (root / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    settings = load(root, stack)
    return StackObjects(settings, read_inputs(settings, root, commit="")).manifests()


@pytest.mark.parametrize(
    ("stack", "published"),
    [
        pytest.param("eidf", claim("name: pytorch-pvc, namespace: eidf001", "csi-cephfs-sc", "ReadWriteMany", "2Gi")),
        pytest.param("eidf", service(LOADER[1])),
        pytest.param("eidf", service(gpu_job(1, 1, 1800))),
        pytest.param("eidf", service(gpu_job(3, 4, 3600)).replace("pytorch-job-", "pytorch-job-multi-")),
        pytest.param(
            "vsphere",
            claim("name: data, namespace: user, labels: {app: data}", "k8s-storage-policy", "ReadWriteOnce", "10Gi"),
        ),
        pytest.param("vsphere", CPU_TORCH[1]),
        pytest.param("vsphere", GPU_TORCH[1]),
        pytest.param("vsphere", BASELINE[1]),
        pytest.param("azurestack", GLOO[1].replace("/mnt/data", "/mnt/local-storage")),
        pytest.param("traindb", MODELS_VOLUME),
        pytest.param(
            "traindb",
            claim("name: traindb-models-claim, namespace: kubeflow", "manual", "ReadWriteMany", "3Gi", MODELS_SELECTOR),
        ),
        pytest.param("traindb", FASHION[1]),
        pytest.param("sweeps", TRIAL),
    ],
)
def test_a_committed_environment_declares_the_published_object(tmp_path: Path, stack: str, published: str) -> None:
    """`trainstack render -s <env>` prints it with the product's labels; a trial also has an init container."""
    expected = yaml.load(published, yaml.CSafeLoader)
    found = [without_labels(body) for body in declared(tmp_path, stack)]
    (only,) = (body for body in found if named(body) == named(expected))
    if stack == "sweeps":
        pod = only["spec"]["template"]["spec"]
        assert [container["name"] for container in pod.pop("initContainers")] == ["checkout"]
        assert [volume["name"] for volume in pod.pop("volumes")] == ["trainstack-code", "trainstack-sweep"]
    assert only == expected


def named(body: Manifest) -> tuple[str, str]:
    """Return the kind of an object, and its name or generateName."""
    metadata = body["metadata"]
    return body["kind"], metadata.get("name") or metadata["generateName"]


def test_null_removes_a_field(tmp_path: Path) -> None:
    """A workload's file may therefore have values that an environment does not need."""
    (tmp_path / "workloads/train").mkdir(parents=True)
    (tmp_path / "workloads/train/workload.yaml").write_text(
        "{kind: PyTorchJob, managed: false, image: {name: a}, roles: {Master: {}},\n"
        " cleanPodPolicy: All, backoffLimit: 2}"
    )
    policy = {"cleanPodPolicy": "All", "backoffLimit": 2}
    assert built(tmp_path, "- {name: train, namespace: a}")["spec"]["runPolicy"] == policy
    without = built(tmp_path, "- {name: train, namespace: a, cleanPodPolicy: null, backoffLimit: null}")
    assert "runPolicy" not in without["spec"]

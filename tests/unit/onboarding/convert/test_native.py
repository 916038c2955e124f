"""Settings take the place of a manifest only if they render every field of it, and nothing else."""

import pytest

from tests.unit.onboarding.convert.make import read
from trainstack.onboarding.convert.native import native_settings

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: vision, labels: {kueue.x-k8s.io/queue-name: shared}}
spec:
  backoffLimit: 2
  template:
    spec:
      restartPolicy: Never
      nodeSelector: {gpu: a100}
      containers:
        - name: main
          image: python:3.12
          command: [python, train.py]
          env: [{name: SEED, value: "1"}, {name: TOKEN, valueFrom: {secretKeyRef: {name: hub, key: token}}}]
          resources: {limits: {cpu: 2, memory: 2048Mi}}
          volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"""
PYTORCHJOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train}
spec:
  runPolicy: {cleanPodPolicy: Running}
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: OnFailure
      template: {spec: {containers: [{name: pytorch, image: "a:1", command: [python], args: [--master]}]}}
    Worker:
      replicas: 3
      restartPolicy: OnFailure
      template: {spec: {containers: [{name: pytorch, image: "a:1", command: [python]}]}}
"""


def test_a_job_is_its_settings() -> None:
    """Namespace, queue and name are those of the run."""
    settings = native_settings(read(JOB)[0], "other", "lab")
    assert settings == (
        {
            "kind": "Job",
            "managed": False,
            "security": "baseline",
            "backoffLimit": 2,
            "container": "main",
            "image": {"name": "python:3.12"},
            "command": ["python", "train.py"],
            "resources": {"limits": {"cpu": 2, "memory": "2048Mi"}},
            "env": {"SEED": "1"},
            "secretEnv": {"TOKEN": {"secret": "hub", "key": "token"}},
            "volumes": [{"volume": "data", "mountPath": "/data"}],
            "nodeSelector": {"gpu": "a100"},
            "restartPolicy": "Never",
        },
        {"namespace": "vision", "naming": "fixed", "queue": "shared"},
    )


def test_a_pytorchjob_has_what_differs_in_its_roles() -> None:
    """Empty arguments replace those of the master."""
    settings = native_settings(read(PYTORCHJOB)[0], "vision", "lab")
    assert settings is not None
    assert settings[0]["roles"] == {
        "Master": {"replicas": 1, "restartPolicy": "OnFailure"},
        "Worker": {"replicas": 3, "restartPolicy": "OnFailure", "args": []},
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("restartPolicy: Never", "restartPolicy: Never\n      priorityClassName: high"),
        ("{name: data, mountPath: /data}", "{name: data, mountPath: /data, subPath: x}"),
        ("[{name: data, persistentVolumeClaim", "[{name: code, emptyDir: {}}, {name: data, persistentVolumeClaim"),
        ("- name: main", "- {name: sidecar, image: b}\n        - name: main"),
        ('{name: SEED, value: "1"}, {name: TOKEN', "{name: A, valueFrom: {fieldRef: {fieldPath: x}}}, {name: TOKEN"),
        ("backoffLimit: 2", "backoffLimit: 2\n  completionMode: Indexed"),
        ("metadata: {name: train,", "metadata: {name: train, annotations: {a: b},"),
        ("kind: Job", "kind: CronJob"),
    ],
)
def test_anything_else_is_a_manifest(old: str, new: str) -> None:
    """Whatever the reason."""
    assert native_settings(read(JOB.replace(old, new))[0], "vision", "lab") is None


def test_the_order_of_variables_counts() -> None:
    """A variable may refer to those before it, and settings have those of Secrets last."""
    variables = '[{name: SEED, value: "1"}, {name: TOKEN, valueFrom: {secretKeyRef: {name: hub, key: token}}}]'
    reverse = '[{name: TOKEN, valueFrom: {secretKeyRef: {name: hub, key: token}}}, {name: SEED, value: "1"}]'
    assert native_settings(read(JOB.replace(variables, reverse))[0], "vision", "lab") is None

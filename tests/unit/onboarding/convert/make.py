"""Objects of files for the tests of conversions."""

from textwrap import dedent

from trainstack.onboarding.convert.conversion import Conversion, Target, convert_objects
from trainstack.onboarding.convert.documents import InputObject, SourceText, read_objects
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import Environment

JOB = """\
# Trains the model.
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  namespace: vision
  labels: {kueue.x-k8s.io/queue-name: shared}  # the queue of the group
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: python:3.12
          command: [python, train.py, --lr=0.1]
          volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"""
CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: vision}
spec: {accessModes: [ReadWriteMany], storageClassName: fast, resources: {requests: {storage: 10Gi}}}
"""


def read(*texts: str) -> tuple[InputObject, ...]:
    """Return the objects of texts, the files of which are `1.yaml`, `2.yaml` and so on."""
    return read_objects(SourceText(name=f"{number}.yaml", text=dedent(text)) for number, text in enumerate(texts, 1))


def make_target(
    namespace: str | None = "vision", *, environment: Environment | None = None, workload_names: tuple[str, ...] = ()
) -> Target:
    """Return an owner's environment."""
    settings = Settings(stack="lab", environment=environment or Environment())
    return Target(settings=settings, namespace=namespace, workload_names=frozenset(workload_names))


def convert(*texts: str, target: Target | None = None, with_sweeps: bool = False) -> Conversion:
    """Convert the objects of texts."""
    return convert_objects(read(*texts), target or make_target(), with_sweeps=with_sweeps)

"""Operators and frameworks are added where the environment installs Kueue, and only what it lacks."""

from tests.unit.make import make_kueue
from tests.unit.onboarding.convert.make import read
from trainstack.onboarding.convert.operators import needed_operators
from trainstack.settings.sections.operators import Install, Operators

OBJECTS = """
{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: ranks}}
---
{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: nodes}}
---
{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: ray}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: job}}
"""
KUEUE = make_kueue(frameworks=("batch/job", "trainer.kubeflow.org/trainjob"))


def added(operators: Operators) -> dict[str, object]:
    entries = [entry for entry, _ in needed_operators(read(OBJECTS), operators)]
    assert all(entry.replaces_value for entry in entries)
    return {".".join(entry.path): entry.value for entry in entries}


def test_missing_operators_and_frameworks_are_added() -> None:
    """KubeRay cannot be installed by an environment, but Kueue queues its RayJobs."""
    frameworks = ["batch/job", "trainer.kubeflow.org/trainjob", "kubeflow.org/pytorchjob", "ray.io/rayjob"]
    assert added(Operators(kueue=KUEUE)) == {
        "operators.trainingOperator": {},
        "operators.trainer": {},
        "operators.jobset": {},
        "operators.kueue.configuration.frameworks": frameworks,
    }


def test_installed_operators_are_unchanged() -> None:
    install = Install(manifest=KUEUE.manifest)
    assert "operators.jobset" not in added(Operators(kueue=KUEUE, jobset=install))


def test_an_environment_without_kueue_installs_nothing() -> None:
    """Its cluster has the operators already."""
    assert added(Operators()) == {}


def test_the_notes_name_the_object() -> None:
    notes = [note for _, note in needed_operators(read(OBJECTS), Operators(kueue=KUEUE))]
    assert notes[0] == "operators.trainingOperator is added, which PyTorchJob ranks needs"
    assert notes[-1] == (
        "kubeflow.org/pytorchjob, ray.io/rayjob is added to Kueue's frameworks for PyTorchJob ranks, RayJob ray"
    )

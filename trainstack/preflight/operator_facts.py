"""How the operators that environments depend on are recognized, wherever they are installed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Install


@dataclass(frozen=True)
class OperatorFacts:
    title: str
    path: str
    """Of its section in the settings."""
    names: tuple[str, ...]
    """Of its Deployment, in its releases and charts; a container may have the same name."""
    labels: Mapping[str, str]
    """Of its Deployment, and usually of its pods."""
    images: tuple[str, ...]
    """The last part of its image's repository."""


OPERATORS: Mapping[str, OperatorFacts] = {
    "kueue": OperatorFacts(
        "Kueue",
        "operators.kueue",
        ("kueue-controller-manager",),
        {"app.kubernetes.io/name": "kueue", "app.kubernetes.io/component": "controller"},
        ("kueue",),
    ),
    "training-operator": OperatorFacts(
        "the training operator",
        "operators.trainingOperator",
        ("training-operator",),
        {"control-plane": "kubeflow-training-operator"},
        # A charm's image has the name of its resource.
        ("training-operator", "training-operator-image"),
    ),
    "jobset": OperatorFacts(
        "JobSet",
        "operators.jobset",
        ("jobset-controller-manager", "jobset-controller"),
        {"app.kubernetes.io/part-of": "jobset"},
        ("jobset",),
    ),
    "trainer": OperatorFacts(
        "Kubeflow Trainer",
        "operators.trainer",
        ("kubeflow-trainer-controller-manager",),
        {"app.kubernetes.io/name": "trainer", "app.kubernetes.io/component": "manager"},
        ("trainer-controller-manager",),
    ),
}


def installs(settings: Settings) -> Iterator[tuple[str, Install]]:
    """Yield the operators that the environment installs, by the path of their section."""
    for name, install in settings.operators.installs.items():
        yield OPERATORS[name].path, install

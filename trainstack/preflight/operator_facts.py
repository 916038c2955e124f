"""Facts by which the operators of environments are recognized on a cluster, whoever installed them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trainstack.runs.manifests.kind import OperatorController
from trainstack.runs.status.launch_kinds import KINDS
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Install


@dataclass(frozen=True, kw_only=True)
class OperatorFacts(OperatorController):
    path: str = ""
    """Path of the operator's section in the settings; empty if environments cannot install it."""

    def remedy(self, name: str) -> str:
        """Return the remedy for a missing operator. `name`: its name in the sentence."""
        return f"have {name} installed{f', or declare {self.path}' if self.path else ''}"


OPERATORS: Mapping[str, OperatorFacts] = {
    "kueue": OperatorFacts(
        path="operators.kueue",
        title="Kueue",
        names=("kueue-controller-manager",),
        labels={"app.kubernetes.io/name": "kueue", "app.kubernetes.io/component": "controller"},
        images=("kueue",),
    ),
    "training-operator": OperatorFacts(
        path="operators.trainingOperator",
        title="the training operator",
        names=("training-operator",),
        labels={"control-plane": "kubeflow-training-operator"},
        # A charm's image has the name of its resource.
        images=("training-operator", "training-operator-image"),
    ),
    "jobset": OperatorFacts(
        path="operators.jobset",
        title="JobSet",
        names=("jobset-controller-manager", "jobset-controller"),
        labels={"app.kubernetes.io/part-of": "jobset"},
        images=("jobset",),
    ),
    "trainer": OperatorFacts(
        path="operators.trainer",
        title="Kubeflow Trainer",
        names=("kubeflow-trainer-controller-manager",),
        labels={"app.kubernetes.io/name": "trainer", "app.kubernetes.io/component": "manager"},
        images=("trainer-controller-manager",),
    ),
    **{
        kind.operator: OperatorFacts(**vars(kind.controller))
        for kind in KINDS.values()
        if kind.operator and kind.controller
    },
}


def installs_with_paths(settings: Settings) -> Iterator[tuple[str, Install]]:
    """Yield the operators that the environment installs, with the paths of their sections."""
    for name, install in settings.operators.installs.items():
        yield OPERATORS[name].path, install

"""Environments to declare without a cluster: the committed ones, and one with every option."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.unit.make import (
    make_distributed,
    make_kueue,
    make_manifest,
    make_run,
    make_secret,
    make_settings,
    make_space,
    make_storage,
    make_sweep,
    make_training_operator,
)
from tests.unit.platform.operators import test_kueue as test_kueue_install
from tests.unit.platform.operators import test_trainer as test_trainer_install
from tests.unit.platform.operators import test_training_operator as test_training_operator_install
from trainstack.guards.cluster_identity import ClusterIdentity
from trainstack.guards.definition_releases import plan_releases
from trainstack.guards.other_states import OwnState
from trainstack.live.snapshot import LiveRuns
from trainstack.settings.loading.load import load
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import Environment, Namespace
from trainstack.settings.sections.operators import Install, Operators
from trainstack.settings.sections.secrets import Secrets
from trainstack.settings.sections.storage import PersistentVolume
from trainstack.settings.sections.sweeps import Sweeps
from trainstack.settings.sections.tenants import Team, Tenants
from trainstack.settings.values.stack_name import list_stacks
from trainstack.stack_objects.inputs import Inputs, read_inputs
from trainstack.stack_objects.stack_objects import StackObjects
from trainstack.stacks.plan_change import LoadedProgram
from trainstack.stacks.run_decision import RunDecision, decide_runs_and_sweeps

ROOT = Path(__file__).resolve().parents[2]
HERE = ClusterIdentity({"kube-system": "here"}, "lab", "https://lab:6443")
OWN = "a" * 32
"""The identity of the engine's state."""
COMMITTED = list_stacks(ROOT)
EMPTY_CLUSTER = LiveRuns(live=(), ledgers=(), wrappers={})


def make_releases() -> dict[str, tuple[dict[str, Any], ...]]:
    """Return minimal releases of the operators."""
    names = {install.__name__: words for install, words in test_trainer_install.NAMES.items()}
    releases = {
        "kueue": test_kueue_install.make_release(),
        "training-operator": test_training_operator_install.make_release(),
        **{name: test_trainer_install.make_release(*words) for name, words in names.items()},
    }
    return {name: tuple({"apiVersion": "v1", **manifest} for manifest in release) for name, release in releases.items()}


def committed(stack: str) -> tuple[Settings, Inputs]:
    """Return an environment of this repository, with minimal releases, and without runs that wait for another one."""
    settings = load(ROOT, stack)
    read = read_inputs(settings.model_copy(update={"operators": Operators()}), ROOT, commit="c" * 40)
    runs = [run.model_copy(update={"depends_on": ()}) for run in settings.workloads.runs]
    workloads = settings.workloads.model_copy(update={"runs": tuple(runs)})
    return settings.model_copy(update={"workloads": workloads}), replace(read, releases=make_releases())


def whole() -> tuple[Settings, Inputs]:
    """Return an environment with everything that one can have, and two of most."""
    names = ("research", "speech")
    disk: dict[str, Any] = {
        "storage_class": "shared",
        "size": "1Gi",
        "access_modes": ("ReadWriteOnce",),
        "host_path": "/x",
    }
    teams = (Team(name=name, namespace=name, groups=("ml",), service_account="ci") for name in names)
    install = Install(manifest=make_manifest())
    settings = make_settings(
        make_run(name="a"),
        make_distributed(name="b", kind="TrainJob"),
        make_distributed(name="c", kind="TrainJob"),
        make_run(name="d", namespace="speech"),
        environment=Environment(namespaces=tuple(Namespace(name=name) for name in names)),
        secrets=Secrets(secrets=tuple(make_secret(name=name) for name in names)),
        tenants=Tenants(teams=tuple(teams)),
        storage=make_storage(persistent_volumes=tuple(PersistentVolume(name=f"disk-{name}", **disk) for name in names)),
        operators=Operators(
            kueue=make_kueue(), training_operator=make_training_operator(), jobset=install, trainer=install
        ),
        sweeps=Sweeps(
            sweeps=(
                make_sweep(name="one", run=make_run(name="one"), space=make_space(file="/f")),
                make_sweep(name="two", run=make_run(name="two"), form="indexed", parallelism=2),
                make_sweep(name="three", run=make_distributed(name="three", kind="TrainJob")),
            )
        ),
    )
    return settings, Inputs(releases=make_releases(), wrapper="print()", commit="c" * 40)


def of_one_layer(layer: str) -> tuple[Settings, Inputs]:
    """Return the same environment with one layer."""
    settings, inputs = whole()
    environment = settings.environment.model_copy(update={"layers": (layer,)})
    return settings.model_copy(update={"environment": environment}), inputs


def decide(settings: Settings, inputs: Inputs) -> RunDecision:
    """Return the decision on runs and sweeps in a cluster without any."""
    return decide_runs_and_sweeps(StackObjects(settings, inputs), EMPTY_CLUSTER)


def make_program(settings: Settings, inputs: Inputs) -> LoadedProgram:
    """Return the program of an environment on an empty cluster."""
    declared = StackObjects(settings, inputs)
    return LoadedProgram(
        cluster=HERE,
        state=OwnState(OWN),
        stack_objects=declared,
        definitions=plan_releases(declared, {}, {}, OWN),
        run_decision=decide_runs_and_sweeps(declared, EMPTY_CLUSTER),
        recorded_launches=(),
        replacements={},
        takeovers=(),
        notes=(),
        admission_lines=(),
    )


def decrypted(settings: Settings) -> dict[str, Any]:
    """Return the section of Secrets as the engine decrypts it."""
    sections = settings.secrets.secrets
    return {"secrets": [{**secret.model_dump(), "values": dict.fromkeys(secret.values, "x")} for secret in sections]}

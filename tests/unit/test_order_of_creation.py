"""`render` prints objects in the order in which the program declares them to the engine.

An object is declared after all that it depends on, and created after it. Objects that do not depend on each other are
created at the same time, and reach the engine in an order that varies.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime import mocks

from checks.cluster.snapshot import Runs
from checks.states import OwnState
from components.objects import called
from manifests.operators import in_order
from manifests.retained import retained
from settings.environment import Environment, Namespace
from settings.load import load
from settings.model import Settings
from settings.operators import Install, Operators
from settings.secrets import Secrets
from settings.stack_name import stacks
from settings.storage import PersistentVolume
from settings.sweeps import Sweeps
from settings.tenants import Team, Tenants
from stacks import platform
from stacks.assemble import assemble
from stacks.decided import Decided, runs_and_sweeps
from stacks.program import Program, _declared
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
from tests.unit.manifests import test_kueue_install, test_trainer_install, test_training_operator_install
from tests.unit.test_gate import HERE, OWN, Registered
from workloads import render
from workloads.render import Inputs

ROOT = Path(__file__).resolve().parents[2]
CRD = "CustomResourceDefinition"


def make_releases() -> dict[str, tuple[dict[str, Any], ...]]:
    """The operators' releases in small."""
    names = {install.__name__: words for install, words in test_trainer_install.NAMES.items()}
    releases = {
        "kueue": test_kueue_install.make_release(),
        "training-operator": test_training_operator_install.make_release(),
        **{name: test_trainer_install.make_release(*words) for name, words in names.items()},
    }
    return {name: tuple({"apiVersion": "v1", **each} for each in release) for name, release in releases.items()}


def committed(stack: str) -> tuple[Settings, Inputs]:
    """An environment of this repository, with the releases in small, and with no run that waits for another one."""
    settings = load(ROOT, stack)
    read = render.read_inputs(settings.model_copy(update={"operators": Operators()}), ROOT, commit="c" * 40)
    runs = [run.model_copy(update={"depends_on": ()}) for run in settings.workloads.runs]
    workloads = settings.workloads.model_copy(update={"runs": tuple(runs)})
    return settings.model_copy(update={"workloads": workloads}), replace(read, releases=make_releases())


def whole() -> tuple[Settings, Inputs]:
    """An environment with everything that one can have, and two of most."""
    names = ("research", "speech")
    disk: dict[str, Any] = {
        "storage_class": "shared",
        "size": "1Gi",
        "access_modes": ("ReadWriteOnce",),
        "host_path": "/x",
    }
    teams = (Team(name=each, namespace=each, groups=("ml",), service_account="ci") for each in names)
    install = Install(manifest=make_manifest())
    settings = make_settings(
        make_run(name="a"),
        make_distributed(name="b", kind="TrainJob"),
        make_distributed(name="c", kind="TrainJob"),
        make_run(name="d", namespace="speech"),
        environment=Environment(namespaces=tuple(Namespace(name=each) for each in names)),
        secrets=Secrets(secrets=tuple(make_secret(name=each) for each in names)),
        tenants=Tenants(teams=tuple(teams)),
        storage=make_storage(persistent_volumes=tuple(PersistentVolume(name=f"disk-{each}", **disk) for each in names)),
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


def of_one_half(half: str) -> tuple[Settings, Inputs]:
    """The same, of which the stack has one half."""
    settings, inputs = whole()
    environment = settings.environment.model_copy(update={"halves": (half,)})
    return settings.model_copy(update={"environment": environment}), inputs


@pytest.fixture(autouse=True)
def _engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A loop for the SDK, whose hooks are registered at once, and operators that answer at once."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)

    def registered(_: object) -> asyncio.Future[None]:
        done = loop.create_future()
        done.set_result(None)
        return done

    monkeypatch.setattr(pulumi.resource_hooks, "register_resource_hook", registered)
    monkeypatch.setattr(pulumi.resource_hooks, "register_error_hook", registered)
    monkeypatch.setattr(platform, "wait_until_accepted", lambda *_: None)
    yield
    asyncio.set_event_loop(None)
    loop.close()


def decide(settings: Settings, inputs: Inputs) -> Decided:
    """What becomes of runs and sweeps on a cluster that has none of them."""
    return runs_and_sweeps(settings, inputs, Runs(live=(), ledgers=(), wrappers={}))


def declared(settings: Settings, inputs: Inputs) -> list[tuple[str, str]]:
    """Type and name of every object that the program declares on an empty cluster, in its order."""
    installs = render.operators(settings, inputs)
    program = Program(
        settings=settings,
        cluster=HERE,
        state=OwnState(OWN),
        operators=installs,
        decided=decide(settings, inputs),
        recorded=(),
        departing={},
        taken=(),
        retained=tuple(retained(settings, in_order(installs.values()))),
        notes=(),
        verdicts=(),
    )
    sealed = [{**each.model_dump(), "values": dict.fromkeys(each.values, "x")} for each in settings.secrets.secrets]
    objects: list[tuple[str, str]] = []

    def keep(args: pulumi.ResourceTransformationArgs) -> None:
        # What has an id is only read.
        if args.type_.startswith("kubernetes:") and args.opts.id is None:
            objects.append((args.type_, args.name))

    def declare() -> None:
        pulumi.runtime.register_stack_transformation(keep)
        assemble(program, pulumi.Output.from_input({"secrets": sealed}) if sealed else None)

    registered = Registered("here")
    mocks.set_mocks(registered, project="trainstack", stack=settings.stack, preview=False)
    root = pulumi.runtime.get_root_resource()
    assert root is not None
    root._transformations = []
    pulumi.runtime.test(declare)()  # type: ignore[no-untyped-call]  # the SDK gives it no types
    assert {name for _, name in objects} <= registered.seen.keys()
    return objects


def rendered(settings: Settings, inputs: Inputs) -> list[tuple[str, str]]:
    """Type and name of every object that `render` prints, in its order."""
    return [called(each) for each in render.everything(settings, inputs)]


def guarded(settings: Settings, inputs: Inputs) -> list[tuple[str, str]]:
    """Type and name of every object that the guards look at before the first write, in their order."""
    return [called(each) for each in _declared(settings, inputs, decide(settings, inputs))]


@pytest.mark.parametrize("stack", stacks(ROOT))
def test_a_committed_environment(stack: str) -> None:
    """The program declares what `render` prints, in its order."""
    settings, inputs = committed(stack)
    assert declared(settings, inputs) == rendered(settings, inputs) == guarded(settings, inputs)


def test_an_environment_with_everything() -> None:
    """Also Secrets, teams, volumes on hosts, all operators, TrainingRuntimes, and sweeps of both forms."""
    settings, inputs = whole()
    assert declared(settings, inputs) == rendered(settings, inputs) == guarded(settings, inputs)


@pytest.mark.parametrize("half", ["platform", "training"])
def test_a_stack_of_one_half(half: str) -> None:
    """The training half has the Secrets, where it stands alone."""
    settings, inputs = of_one_half(half)
    assert declared(settings, inputs) == rendered(settings, inputs) == guarded(settings, inputs)


@pytest.mark.parametrize("stack", [*stacks(ROOT), "whole"])
def test_the_stream_can_be_applied_in_its_order(stack: str) -> None:
    """`kubectl apply -f -` finds the namespace of each object, and the definition of its kind."""
    objects = render.everything(*(whole() if stack == "whole" else committed(stack)))
    place = {(each["kind"], each["metadata"].get("name", "")): index for index, each in enumerate(objects)}
    for index, each in enumerate(objects):
        assert place.get(("Namespace", each["metadata"].get("namespace")), -1) < index
        group = f".{each['apiVersion'].partition('/')[0]}"
        assert all(at < index for (kind, name), at in place.items() if kind == CRD and name.endswith(group))

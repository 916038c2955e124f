"""The trials of a sweep are ordinary workloads; their run ids depend on their sets and not on their numbers."""

import pytest
from pydantic import ValidationError

from tests.unit.make import (
    make_distributed,
    make_expansion,
    make_manifest_run,
    make_run,
    make_settings,
    make_space,
    make_sweep,
)
from trainstack.runs.errors import WorkloadError
from trainstack.runs.identity import identity
from trainstack.runs.manifests.trials import TrialOverrides, trials
from trainstack.settings.model import Settings
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.search_space.space import Parameter
from trainstack.settings.sections.sweeps import Sweeps
from trainstack.settings.sections.workloads import Role, Workload
from trainstack.stack_objects.inputs import Inputs
from trainstack.stack_objects.stack_objects import StackObjects

TWO = make_space(
    parameters={
        "optimizer": Parameter(categorical=("sgd", "adam")),
        "momentum": Parameter(values=(0.9,), when={"optimizer": ("sgd",)}),
    },
    args=("--optimizer=${parameters.optimizer}", "--momentum=${parameters.momentum}", "--fixed"),
    env={"MOMENTUM": "${parameters.momentum}", "A": "${parameters.optimizer}"},
)
SETS = make_expansion({"optimizer": "sgd", "momentum": 0.9}, {"optimizer": "adam"}, space=TWO)


def ids(**changes: object) -> dict[str, str]:
    """Return the run ids of a sweep's trials by set."""
    settings: Settings = make_settings(sweeps=Sweeps(sweeps=(make_sweep(**changes),)))
    return {trial.set_id: run_id for run_id, trial in StackObjects(settings, Inputs()).trials["search"].items()}


def test_a_set_becomes_arguments_and_variables() -> None:
    """They follow and override those of the workload. A template with a missing parameter is left out."""
    run = make_run(name="search", args=("--epochs=1",), env={"A": "own", "B": "own"})
    first, second = trials(make_sweep(run=run, space=TWO, expansion=SETS))
    assert [trial.number for trial in (first, second)] == [1, 2]
    assert first.overrides == TrialOverrides(
        args=("--optimizer=sgd", "--momentum=0.9", "--fixed"), env={"MOMENTUM": "0.9", "A": "sgd"}
    )
    assert second.overrides == TrialOverrides(args=("--optimizer=adam", "--fixed"), env={"A": "adam"})
    assert second.workload == make_run(
        name="search", args=("--epochs=1", "--optimizer=adam", "--fixed"), env={"A": "adam", "B": "own"}
    )


def test_roles_with_their_own_arguments_get_the_set_too() -> None:
    """A role without arguments inherits the workload's, which already have the set."""
    run = make_distributed(name="search", roles={"Master": Role(), "Worker": Role(args=("-w",), env={"W": "1"})})
    first, _ = trials(make_sweep(run=run, space=TWO, expansion=SETS))
    assert first.workload.roles["Master"] == Role()
    assert first.workload.roles["Worker"].args == ("-w", "--optimizer=sgd", "--momentum=0.9", "--fixed")
    assert first.workload.roles["Worker"].env == {"W": "1", "MOMENTUM": "0.9", "A": "sgd"}


def test_a_sweep_that_is_not_expanded_has_no_trials() -> None:
    assert trials(make_sweep(expansion=None)) == ()


def test_run_ids_do_not_depend_on_number_form_or_launch_part() -> None:
    """A moved set, another form, parallelism or queue are the same runs."""
    before = ids()
    sets: list[dict[str, Value]] = [{"batch_size": size} for size in (512, 8, 64, 32)]
    moved = ids(expansion=make_expansion(*sets))
    assert {set_id: moved[set_id] for set_id in moved.keys() & before.keys()} == {
        set_id: before[set_id] for set_id in moved.keys() & before.keys()
    }
    assert len(moved.keys() & before.keys()) == 3
    assert ids(form="indexed", parallelism=2, max_failed_indexes=1) == before
    assert ids(run=make_run(name="search", queue=None, backoff_limit=3)) == before
    assert len({*before.values()}) == 4


def test_a_set_that_is_only_in_the_file_is_another_run() -> None:
    """A program that reads hyperparams.yml has the same arguments for every set."""
    found = ids(space=make_space(args=(), file="/work/hyperparams.yml"))
    assert len({*found.values()}) == 4


def test_a_run_has_no_parameters_in_its_identity() -> None:
    """Runs from before the introduction of sweeps therefore keep their ids."""
    declared = StackObjects(make_settings(sweeps=Sweeps(sweeps=(make_sweep(),))), Inputs())
    (first, *_) = declared.trials["search"].values()
    shared = declared.facts(declared.settings.sweeps.sweeps[0].run)
    assert identity(first.workload, first.facts(shared))["parameters"] == {"batch_size": 32}
    assert "parameters" not in identity(first.workload, shared)


def make_search_run(*command: str) -> Workload:
    """Return a workload that is a manifest."""
    container = {"name": "main", "image": "a:1", "command": [*command], "env": [{"name": "LR", "value": "0"}]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": "mine", "namespace": "vision", "labels": {"example.org/trial": "x"}}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}
    return make_manifest_run(body, name="search", naming="fixed")


def test_fields_replace_texts_of_a_manifest() -> None:
    """Elements of lists are found by name or index, keys with other characters in quotes."""
    space = make_space(
        args=(),
        fields={
            "spec.template.spec.containers[main].command[2]": "train --size ${parameters.batch_size}",
            "spec.template.spec.containers[0].env[LR].value": "0.1",
            'metadata.labels["example.org/trial"]': "size-${parameters.batch_size}",
        },
    )
    run = make_search_run("bash", "-c", "train")
    sweep = make_sweep(run=run, space=space, expansion=make_expansion(space=space))
    manifests = [trial.workload.manifest or {} for trial in trials(sweep)]
    container = manifests[1]["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["bash", "-c", "train --size 64"]
    assert container["env"] == [{"name": "LR", "value": "0.1"}]
    assert [manifest["metadata"]["labels"]["example.org/trial"] for manifest in manifests][:2] == ["size-32", "size-64"]
    assert run == make_search_run("bash", "-c", "train"), "the sweep's own manifest is unchanged"


@pytest.mark.parametrize(
    "path",
    [
        "spec.template.spec.containers[other].command[0]",
        "spec.template.spec.containers[main].command[3]",
        "spec.template.spec.containers[main].command",
        "spec.template.other",
    ],
)
def test_a_field_that_the_manifest_lacks_is_an_error(path: str) -> None:
    """It names the sweep and the path."""
    space = make_space(args=(), fields={path: "${parameters.batch_size}"})
    sweep = make_sweep(run=make_search_run("x"), space=space, expansion=make_expansion(space=space))
    with pytest.raises(WorkloadError) as error:
        trials(sweep)
    assert str(error.value).startswith(f"sweep search: space.fields has {path}, but the manifest has no such string")


def test_fields_require_a_manifest() -> None:
    """Other workloads have args and env."""
    with pytest.raises(ValidationError, match="fields are values of a manifest: set manifest of the run"):
        make_sweep(space=make_space(fields={"spec.x": "${parameters.batch_size}"}))

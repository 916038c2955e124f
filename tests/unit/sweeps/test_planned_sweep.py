"""The launches of a sweep's trials, in both forms."""

import json
from typing import Any

import pytest

from tests.unit.make import make_distributed, make_expansion, make_run, make_settings, make_space, make_sweeps
from tests.unit.sweeps.planned_sweeps import make_indexed, make_planned
from trainstack.runs.errors import WorkloadError
from trainstack.runs.ledgers import ledger_config_map, read_ledger
from trainstack.runs.parameter_file import mounted_parameter_file, read_trial_number
from trainstack.settings.search_space.constraints import Value
from trainstack.settings.sections.operators import Operators
from trainstack.settings.sections.workloads import Image
from trainstack.stack_objects.inputs import Inputs
from trainstack.stack_objects.stack_objects import StackObjects
from trainstack.sweeps.planned_sweep import PlannedSweep

MARK = {"app.kubernetes.io/managed-by": "trainstack", "trainstack.dev/stack": "test"}
QUEUED = {"kueue.x-k8s.io/queue-name": "research", "kueue.x-k8s.io/priority-class": "normal"}
SETS: tuple[dict[str, Value], ...] = ({"batch_size": 32}, {"batch_size": 64}, {"batch_size": 128}, {"batch_size": 512})
PROGRAM = ["python3", "/opt/trainstack/run.py", "--", "python3", "train.py"]


def ids(planned: PlannedSweep) -> list[str]:
    """Return the run ids of the trials by number."""
    return list(planned.trials)


def only_container(job: Any) -> Any:
    """Return the only container of a Job's pods."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return container


def variables(job: Any) -> dict[str, str]:
    """Return the container's variables that have a value."""
    return {entry["name"]: entry["value"] for entry in only_container(job)["env"] if "value" in entry}


def test_a_trial_is_launched_as_a_run_with_its_set() -> None:
    """It has its arguments, its number, its set in the record, and the labels of its sweep."""
    planned = make_planned()
    run_id = ids(planned)[1]
    ledger = planned.job_ledger(run_id)
    labels = {
        "trainstack.dev/workload": "search",
        "trainstack.dev/run": run_id,
        "trainstack.dev/launch": ledger.launch_name,
        "trainstack.dev/sweep": "search",
        "trainstack.dev/set": planned.trials[run_id].set_id,
    }
    container = only_container(ledger.launch)
    assert ledger.launch["metadata"]["labels"] == {**labels, **QUEUED, **MARK}
    assert ledger.launch["spec"]["template"]["metadata"]["labels"] == labels
    assert container["command"] == [*PROGRAM, "--batch-size=64"]
    assert container["env"][-1] == {"name": "JOB_ID", "value": "2"}
    assert json.loads(variables(ledger.launch)["TRAINSTACK_RUN"]) == {
        "args": ["--batch-size=64"],
        "attempt": 1,
        "command": ["python3", "train.py"],
        "commit": "abc",
        "data": None,
        "env": {},
        "image": "python:3.11",
        "seed": None,
        "sweep": {
            "id": planned.trials[run_id].set_id,
            "name": "search",
            "number": 2,
            "parameters": {"batch_size": 64},
        },
        "workload": "search",
    }
    assert {volume["name"] for volume in ledger.launch["spec"]["template"]["spec"]["volumes"]} == {
        "training",
        "trainstack-wrapper",
    }
    assert (ledger.run_id, ledger.workload, ledger.sweep, ledger.trials) == (run_id, "search", "search", ())
    assert ledger.launch_name.startswith(f"{run_id}-")


def test_an_unmanaged_program_reads_its_set_by_number_from_the_file() -> None:
    """The committed file is mounted at the program's path, and JOB_ID is the only variable."""
    run = make_run(name="search", managed=False, record=None, volumes=(), command=("bash", "-c", "python main.py"))
    space = make_space(args=(), file="/mnist-training/hyperparams.yml")
    planned = make_planned(run=run, space=space, sets_text="- the file\n")
    ledger = planned.job_ledger(ids(planned)[3])
    ((file, data),) = planned.jobs_file.items()
    assert data == {"hyperparams.yml": "- the file\n"}
    assert file.startswith("sweep-search-")
    assert ledger.launch["spec"]["template"]["spec"] == {
        "containers": [
            {
                "name": "training",
                "image": "python:3.11",
                "command": ["bash", "-c", "python main.py"],
                "env": [{"name": "JOB_ID", "value": "4"}],
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [
                    {
                        "name": "trainstack-sweep",
                        "mountPath": "/mnist-training/hyperparams.yml",
                        "subPath": "hyperparams.yml",
                        "readOnly": True,
                    }
                ],
            }
        ],
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [{"name": "trainstack-sweep", "configMap": {"name": file}}],
    }
    assert (mounted_parameter_file(ledger.objects), read_trial_number(ledger.launch)) == (file, 4)


def test_run_and_launch_of_a_trial_do_not_depend_on_its_number() -> None:
    """A set that is added before it changes its number and the file, but neither name."""
    before = make_planned(space=make_space(file="/f"), sets_text="one")
    sets: tuple[dict[str, Value], ...] = ({"batch_size": 16}, *SETS)
    after = make_planned(space=make_space(file="/f"), expansion=make_expansion(*sets), sets_text="two")
    assert set(ids(before)) < set(ids(after))
    for run_id in ids(before):
        first, second = before.job_ledger(run_id), after.job_ledger(run_id)
        assert first.launch_name == second.launch_name
        assert read_trial_number(first.launch) != read_trial_number(second.launch)
        assert mounted_parameter_file(first.objects) != mounted_parameter_file(second.objects)
        assert (
            after.job_ledger(run_id, number=read_trial_number(first.launch), file=mounted_parameter_file(first.objects))
            == first
        )


def test_all_roles_of_a_distributed_trial_get_their_set() -> None:
    """Roles with their own arguments get it too."""
    run = make_distributed(name="search", args=("--x",))
    run = run.model_copy(update={"roles": {**run.roles, "Worker": run.roles["Worker"].model_copy(update={"args": ()})}})
    planned = make_planned(run=run)
    replicas = planned.job_ledger(ids(planned)[0]).launch["spec"]["pytorchReplicaSpecs"]
    containers = {role: spec["template"]["spec"]["containers"][0] for role, spec in replicas.items()}
    assert containers["Master"]["command"][-2:] == ["--x", "--batch-size=32"]
    assert containers["Worker"]["command"][-1:] == ["--batch-size=32"]
    assert [container["env"][-1] for container in containers.values()] == [{"name": "JOB_ID", "value": "1"}] * 2


def test_a_trainjobs_runtime_has_the_file_and_its_job_the_number() -> None:
    """The number is read from the TrainJob, and the file from its runtime."""
    planned = make_planned(run=make_distributed(name="search", kind="TrainJob"), space=make_space(file="/f"))
    ledger = planned.job_ledger(ids(planned)[2])
    assert read_trial_number(ledger.launch) == 3
    assert mounted_parameter_file(ledger.objects) == next(iter(planned.jobs_file))


def test_many_trials_as_one_job() -> None:
    """Each index reads its trial from the file. The deadline is per pod, the retries are per index."""
    run = make_run(
        name="search", active_deadline_seconds=600, backoff_limit=2, ttl_seconds_after_finished=60, env={"A": "b"}
    )
    planned = make_indexed(run=run, active_deadline_seconds=7200, max_failed_indexes=3)
    ledger = planned.batch_ledger(ids(planned), "sweep-search-0")
    labels = {
        "trainstack.dev/workload": "search",
        "trainstack.dev/run": ledger.run_id,
        "trainstack.dev/launch": ledger.launch_name,
        "trainstack.dev/sweep": "search",
    }
    record = (
        '{"args":[],"attempt":1,"command":["python3","train.py"],"commit":"abc","data":null,"env":{"A":"b"},'
        '"image":"python:3.11","seed":null,"workload":"search"}'
    )
    assert ledger.launch == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": ledger.launch_name,
            "namespace": "research",
            "labels": {**labels, **QUEUED, **MARK},
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        "spec": {
            "activeDeadlineSeconds": 7200,
            "backoffLimitPerIndex": 2,
            "completionMode": "Indexed",
            "completions": 4,
            "maxFailedIndexes": 3,
            "parallelism": 2,
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
            },
            "ttlSecondsAfterFinished": 60,
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "activeDeadlineSeconds": 600,
                    "automountServiceAccountToken": False,
                    "containers": [
                        {
                            "name": "training",
                            "image": "python:3.11",
                            "imagePullPolicy": "IfNotPresent",
                            "command": PROGRAM,
                            "env": [
                                {"name": "A", "value": "b"},
                                {"name": "TRAINSTACK_RUN_ID", "value": ledger.run_id},
                                {"name": "TRAINSTACK_LAUNCH", "value": ledger.launch_name},
                                {"name": "TRAINSTACK_RECORD", "value": "/mnt/training/runs"},
                                {"name": "TRAINSTACK_RUN", "value": record},
                                {
                                    "name": "TRAINSTACK_POD",
                                    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
                                },
                                {"name": "TRAINSTACK_SWEEP", "value": "search"},
                                {"name": "TRAINSTACK_TRIALS", "value": "/opt/trainstack-sweep/trials.json"},
                            ],
                            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                            "securityContext": {
                                "allowPrivilegeEscalation": False,
                                "capabilities": {"drop": ["ALL"]},
                            },
                            "volumeMounts": [
                                {"name": "training", "mountPath": "/mnt/training"},
                                {"name": "trainstack-wrapper", "mountPath": "/opt/trainstack", "readOnly": True},
                                {"name": "trainstack-sweep", "mountPath": "/opt/trainstack-sweep", "readOnly": True},
                            ],
                        }
                    ],
                    "enableServiceLinks": False,
                    "restartPolicy": "Never",
                    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                    "terminationGracePeriodSeconds": 60,
                    "volumes": [
                        {"name": "training", "persistentVolumeClaim": {"claimName": "training"}},
                        {"name": "trainstack-wrapper", "configMap": {"name": planned.facts.wrapper}},
                        {"name": "trainstack-sweep", "configMap": {"name": "sweep-search-0"}},
                    ],
                },
            },
        },
    }
    assert ledger.trials == tuple(ids(planned))
    assert read_ledger(ledger_config_map("test", ledger)) == ledger


def test_with_a_target_the_first_trial_that_reaches_it_ends_the_job() -> None:
    """The wrapper's exit code fails the index of the other trials without a retry."""
    objective = make_space().objective.model_copy(update={"target": 0.9})
    planned = make_indexed(space=make_space(objective=objective))
    spec = planned.batch_ledger(ids(planned), "").launch["spec"]
    assert spec["successPolicy"] == {"rules": [{"succeededCount": 1}]}
    assert spec["podFailurePolicy"]["rules"][1:] == [
        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [79]}}
    ]
    assert json.loads(planned.batch_file(ids(planned))["trials.json"])["objective"] == {
        "metric": "val_accuracy",
        "direction": "maximize",
        "epoch": "best",
        "target": 0.9,
    }


def test_a_batch_is_named_after_its_trials_and_their_common_values() -> None:
    """Its name does not depend on their numbers, the file or the commit."""
    planned = make_indexed()
    before = planned.batch_ledger(ids(planned), "a")
    reordered = make_indexed(expansion=make_expansion(*reversed(SETS)))
    assert reordered.batch_ledger(ids(planned), "b").launch_name == before.launch_name
    assert planned.batch_launch(before.run_id, 4).name == before.launch_name
    fewer = planned.batch_ledger(ids(planned)[1:], "a")
    assert fewer.run_id != before.run_id
    more_memory = make_indexed(run=make_run(name="search", priority="high"))
    assert ids(more_memory) == ids(planned)
    other = more_memory.batch_ledger(ids(planned), "a")
    assert (other.run_id, other.launch_name == before.launch_name) == (before.run_id, False)


def test_a_sweep_in_another_form_has_the_same_trials() -> None:
    """No trial therefore runs twice. A batch is compared with its launch in its own form."""
    one_by_one, together = make_planned(), make_indexed(max_failed_indexes=1)
    assert ids(one_by_one) == ids(together)
    batch = together.batch_ledger(ids(together), "")
    assert one_by_one.batch_launch(batch.run_id, 4, recorded_job=batch.launch).name == batch.launch_name


def test_a_gang_is_no_larger_than_its_trials() -> None:
    """With parallelism 2 and one trial it has one pod."""
    planned = make_indexed()
    spec = planned.batch_ledger(ids(planned)[:1], "").launch["spec"]
    assert (spec["parallelism"], spec["completions"], spec["completionMode"]) == (1, 1, "Indexed")


def test_max_failed_indexes_is_at_most_the_number_of_trials() -> None:
    """The API server refuses a larger value, for example for a Job with one added value."""
    planned = make_indexed(max_failed_indexes=3)
    launch = planned.batch_ledger(ids(planned)[:2], "").launch
    assert (launch["spec"]["maxFailedIndexes"], launch["spec"]["completions"]) == (2, 2)


def test_the_variables_of_a_batch_are_reserved() -> None:
    """Two values of one name would be ambiguous."""
    planned = make_indexed(run=make_run(name="search", env={"TRAINSTACK_TRIALS": "x"}))
    with pytest.raises(WorkloadError, match="env sets TRAINSTACK_TRIALS"):
        planned.batch_ledger(ids(planned), "")


def test_the_variable_with_a_trials_number_is_reserved() -> None:
    """Two values of one name would be ambiguous."""
    planned = make_planned(run=make_run(name="search", env={"JOB_ID": "1"}))
    with pytest.raises(WorkloadError, match="env sets JOB_ID, which is reserved for a Job"):
        planned.job_ledger(ids(planned)[0])


def test_the_objects_of_a_sweep_are_rendered_in_the_order_of_their_creation() -> None:
    """The file, the launches, then their ledgers; form `indexed` has three objects for any number of trials."""
    inputs = Inputs(releases={"kueue": (), "training-operator": ()}, wrapper="print()", commit="abc")

    def rendered(**changes: Any) -> list[str]:
        settings = make_settings(sweeps=make_sweeps(**changes), operators=Operators())
        bodies = [
            body
            for body in StackObjects(settings, inputs).manifests()
            if "trainstack.dev/sweep" in body["metadata"]["labels"]
        ]
        return [f"{body['kind']} {body['metadata']['name'].rpartition('-')[0]}" for body in bodies]

    file, batch, ledger = rendered(form="indexed", parallelism=2)
    assert (file, ledger) == ("ConfigMap sweep-search", "ConfigMap run-search")
    assert batch.startswith("Job search-")
    jobs = rendered(space=make_space(file="/f"), run=make_run(name="search", image=Image(name="x:1")))
    assert [name.partition("-")[0] for name in jobs] == ["ConfigMap sweep", *["Job search"] * 4, *["ConfigMap run"] * 4]
    assert len(rendered()) == 8

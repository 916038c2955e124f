"""The meaning of a change for people."""

from typing import Any

import pytest

from tests.unit.make import make_distributed, make_run
from tests.unit.review.samples import make_claim, make_job, make_quota
from tests.unit.runs.launches import make_launch
from trainstack.objects.labels import Manifest
from trainstack.platform.teams import team_manifests
from trainstack.review.facts import SENTENCES, ChangeStep, Fact, RunContext, find_facts
from trainstack.runs.manifests.build import companions, manifest
from trainstack.settings.sections.tenants import Team
from trainstack.settings.sections.workloads import ReplicatedJob

LIVE = RunContext(live=True)


def sentences(*steps: ChangeStep, view: RunContext = LIVE) -> list[str]:
    """Return the sentences of the facts."""
    return [SENTENCES[fact.meaning].format(*fact.names) for fact in find_facts(steps, view)]


def test_a_launch_has_its_requests() -> None:
    """The sentence sums all pods that run at once; limits replace missing requests."""
    assert sentences(ChangeStep("create", None, make_job())) == [
        "Launches run train-1 (Job research/train-1-2): 2 pods, cpu 3, memory 2Gi, nvidia.com/gpu 8."
    ]


def test_a_bare_pod_is_a_launch_too() -> None:
    """It has one pod; if the API server chooses its name, the launch provides it."""
    job = make_job()
    pod = {**job, "kind": "Pod", "spec": job["spec"]["template"]["spec"]}
    (words,) = sentences(ChangeStep("create", None, pod))
    assert words.startswith("Launches run train-1 (Pod research/train-1-2): 1 pod, ")
    unnamed = {key: value for key, value in job["metadata"].items() if key != "name"}
    labels = {**unnamed["labels"], "trainstack.dev/launch": "train-1-2"}
    generated = {**job, "metadata": {**unnamed, "generateName": "train-", "labels": labels}}
    assert sentences(ChangeStep("create", None, generated)) == sentences(ChangeStep("create", None, job))


def test_a_launch_of_any_kind_has_its_requests() -> None:
    """The companions of a run have no sentence."""
    jobs = (ReplicatedJob(name="driver"), ReplicatedJob(name="workers", replicas=2, parallelism=2, completions=4))
    declared = {
        "PyTorchJob": (make_distributed(), "3 pods, cpu 1500m, memory 3Gi"),
        "TrainJob": (make_distributed(kind="TrainJob"), "3 pods, cpu 1500m, memory 3Gi"),
        "JobSet": (make_run(kind="JobSet", managed=False, replicated_jobs=jobs), "5 pods, cpu 5, memory 5Gi"),
    }
    for kind, (workload, size) in declared.items():
        objects = [*companions(workload, "dev", make_launch()), manifest(workload, "dev", make_launch())]
        assert sentences(*(ChangeStep("create", None, object_) for object_ in objects)) == [
            f"Launches run train-1 ({kind} research/train-1-2): {size}."
        ]


def test_a_deleted_run_is_stopped_only_when_it_is_named() -> None:
    """A successful preview has refused the deletion of every other active run."""
    deletion = ChangeStep("delete", make_job(), None)
    assert sentences(deletion) == [
        "Deletes Job research/train-1-2 of run train-1, which has ended; its record remains on its volume."
    ]
    assert sentences(deletion, view=RunContext(live=True, stop=["train-1"])) == [
        "**Stops run train-1**, which is listed in `stop` (Job research/train-1-2)."
    ]
    assert sentences(deletion, view=RunContext(live=False))[0].startswith("No longer declares run train-1 ")


def make_trial(name: str = "train-1-2", **labels: str) -> Manifest:
    """Return the Job of one trial of the sweep `train`, or, with `set` None, the Job of many."""
    job = make_job(name=name)
    marks = {**job["metadata"]["labels"], "trainstack.dev/sweep": "train", **labels}
    return {**job, "metadata": {**job["metadata"], "labels": marks}}


def test_a_deleted_trial_may_have_waited() -> None:
    """A successful preview allows the deletion of queued trials, and of running ones named by run or by sweep."""
    deletion = ChangeStep("delete", make_trial(), None)
    assert sentences(deletion) == [
        "Deletes Job research/train-1-2 of trial train-1: it has ended, or is queued and its parameter set was removed."
    ]
    for name in ("train", "train-1"):
        assert sentences(deletion, view=RunContext(live=True, stop=[name]))[0].startswith("**Stops run train-1**")


def test_without_a_cluster_the_new_trials_of_a_job_are_unknown() -> None:
    """The files' Job of all trials has another name for each set; its replacement drops no run."""
    before, after = make_trial(), make_trial("train-2-3", **{"trainstack.dev/run": "train-2"})
    assert sentences(ChangeStep("replace", before, after), view=RunContext(live=False)) == [
        "Changes the parameter sets of sweep train, or its run; only new trials are launched."
    ]
    trials = [make_trial(**{"trainstack.dev/set": "a"}), make_trial(**{"trainstack.dev/set": "b"})]
    assert sentences(ChangeStep("create", None, trials[0]), view=RunContext(live=False))[0].startswith(
        "Declares run train-1 "
    )


def test_without_a_cluster_a_launch_is_declared_or_edited() -> None:
    """The files do not show whether it ran before."""
    view = RunContext(live=False)
    assert sentences(ChangeStep("create", None, make_job()), view=view)[0].startswith("Declares run train-1 ")
    edited = ChangeStep("replace", make_job(), make_job(name="train-1-3"))
    assert sentences(edited, view=view)[0].startswith("Edits run train-1 (Job research/train-1-3)")


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (ChangeStep("create", None, make_claim("1Gi")), "Creates volume research/data of 1Gi."),
        (ChangeStep("update", make_claim("1Gi"), make_claim("2Gi")), "Resizes volume research/data from 1Gi to 2Gi."),
        (ChangeStep("update", make_claim("1Gi"), make_claim("1Gi")), "Edits volume research/data."),
        (ChangeStep("delete", make_claim("1Gi"), None), "**Deletes volume research/data and its data.**"),
        (
            ChangeStep("delete", make_claim("1Gi"), None, retained=True),
            "Releases volume research/data; it remains in the cluster with its data.",
        ),
        (
            ChangeStep("replace", make_claim("1Gi"), make_claim("1Gi")),
            "**Replaces volume research/data and deletes its data.**",
        ),
    ],
)
def test_volumes(step: ChangeStep, words: str) -> None:
    """The effect on the data is at the start of the sentence."""
    assert sentences(step) == [words]


def test_changed_quota_is_reported_by_resource_and_flavor() -> None:
    """Limits are included; an unset limit is `none`."""
    before, after = make_quota(nominalQuota="8"), make_quota(nominalQuota="16", borrowingLimit="4")
    assert sentences(ChangeStep("update", before, after)) == [
        "Changes the quota of cluster queue research: nvidia.com/gpu borrowing limit on flavor a100 from none to 4.",
        "Changes the quota of cluster queue research: nvidia.com/gpu on flavor a100 from 8 to 16.",
    ]


def test_a_cluster_queue_has_no_namespace() -> None:
    """The provider gives the namespace `default` to a kind whose definition does not exist yet; it is not shown."""
    queue = make_quota(nominalQuota="8")
    queue["metadata"] = {**queue["metadata"], "namespace": "default"}
    (sentence,) = sentences(ChangeStep("create", None, queue))
    assert sentence.startswith("Creates cluster queue research: ")


def test_the_gravest_fact_is_first() -> None:
    """A lost volume precedes a launch."""
    steps = ChangeStep("create", None, make_job()), ChangeStep("delete", make_claim("1Gi"), None)
    assert [fact.meaning for fact in find_facts(steps, LIVE)] == ["volume-lost", "run-launched"]


def test_what_people_do_not_notice_is_no_fact() -> None:
    """A ledger has a run's label too, but is not a launch."""
    ledger = {**make_job(), "kind": "ConfigMap"}
    assert find_facts([ChangeStep("create", None, ledger)], LIVE) == []
    assert find_facts([ChangeStep("create", None, {"kind": "ServiceAccount", "metadata": {"name": "a"}})], LIVE) == []


def test_facts_compare_by_value() -> None:
    """Facts compare by value."""
    assert find_facts([ChangeStep("delete", make_claim("1Gi"), None)], LIVE) == [
        Fact("volume-lost", ("research/data",))
    ]


def test_rights_are_reported_by_who_gets_and_who_loses_them() -> None:
    """The rights are those of teams; the binding of a controller has no sentence."""

    def binding(*groups: str) -> dict[str, Any]:
        *_, last = team_manifests(Team(name="vision", namespace="vision", groups=groups, service_account="ci"), "lab")
        return last

    assert sentences(ChangeStep("create", None, binding("ml"))) == [
        "Grants rights in namespace vision to Group ml, ServiceAccount ci."
    ]
    assert sentences(ChangeStep("update", binding("ml"), binding("cv"))) == [
        "Revokes rights in namespace vision from Group ml.",
        "Grants rights in namespace vision to Group cv.",
    ]
    assert sentences(ChangeStep("delete", binding("ml"), None)) == [
        "Revokes rights in namespace vision from Group ml, ServiceAccount ci."
    ]
    controller = binding("ml")
    controller["metadata"]["name"] = "leader-election"
    assert sentences(ChangeStep("create", None, controller)) == []

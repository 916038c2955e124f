"""What a change means for people."""

from typing import Any

import pytest

from tests.unit.make import make_distributed, make_run
from tests.unit.review.samples import make_claim, make_job, make_quota
from tests.unit.workloads.launches import make_launch
from trainstack.objects.labels import Manifest
from trainstack.platform.tenants import rights
from trainstack.review.facts import SENTENCES, Fact, Step, View, facts
from trainstack.runs.manifests.build import companions, manifest
from trainstack.settings.sections.tenants import Team
from trainstack.settings.sections.workloads import ReplicatedJob

LIVE = View(live=True)


def said(*steps: Step, view: View = LIVE) -> list[str]:
    """The facts in words."""
    return [SENTENCES[fact.meaning].format(*fact.names) for fact in facts(steps, view)]


def test_a_launch_says_what_it_asks_for() -> None:
    """All pods that stand at once, together; limits stand for requests that are not given."""
    assert said(Step("create", None, make_job())) == [
        "Launches run train-1 (Job research/train-1-2): 2 pods, cpu 3, memory 2Gi, nvidia.com/gpu 8."
    ]


def test_a_bare_pod_is_a_launch_too() -> None:
    """One pod; and a name that the API server chooses is told by the launch."""
    job = make_job()
    pod = {**job, "kind": "Pod", "spec": job["spec"]["template"]["spec"]}
    (words,) = said(Step("create", None, pod))
    assert words.startswith("Launches run train-1 (Pod research/train-1-2): 1 pod, ")
    unnamed = {key: value for key, value in job["metadata"].items() if key != "name"}
    labels = {**unnamed["labels"], "trainstack.dev/launch": "train-1-2"}
    generated = {**job, "metadata": {**unnamed, "generateName": "train-", "labels": labels}}
    assert said(Step("create", None, generated)) == said(Step("create", None, job))


def test_a_launch_of_any_kind_says_what_it_asks_for() -> None:
    """Its companion says nothing of its own."""
    jobs = (ReplicatedJob(name="driver"), ReplicatedJob(name="workers", replicas=2, parallelism=2, completions=4))
    declared = {
        "PyTorchJob": (make_distributed(), "3 pods, cpu 1500m, memory 3Gi"),
        "TrainJob": (make_distributed(kind="TrainJob"), "3 pods, cpu 1500m, memory 3Gi"),
        "JobSet": (make_run(kind="JobSet", managed=False, replicated_jobs=jobs), "5 pods, cpu 5, memory 5Gi"),
    }
    for kind, (workload, size) in declared.items():
        objects = [*companions(workload, "dev", make_launch()), manifest(workload, "dev", make_launch())]
        assert said(*(Step("create", None, each) for each in objects)) == [
            f"Launches run train-1 ({kind} research/train-1-2): {size}."
        ]


def test_a_run_that_goes_is_stopped_only_when_it_is_named() -> None:
    """A preview that went through has refused every other active run."""
    gone = Step("delete", make_job(), None)
    assert said(gone) == [
        "Deletes Job research/train-1-2 of run train-1, which has ended; its record remains on its volume."
    ]
    assert said(gone, view=View(live=True, stop=["train-1"])) == [
        "**Stops run train-1**, which is listed in `stop` (Job research/train-1-2)."
    ]
    assert said(gone, view=View(live=False))[0].startswith("No longer declares run train-1 ")


def make_trial(name: str = "train-1-2", **labels: str) -> Manifest:
    """The Job of one trial of the sweep `train`, or with `set` None that of many."""
    job = make_job(name=name)
    marks = {**job["metadata"]["labels"], "trainstack.dev/sweep": "train", **labels}
    return {**job, "metadata": {**job["metadata"], "labels": marks}}


def test_a_trial_that_goes_may_have_waited() -> None:
    """A preview that went through lets queued ones go, and running ones that are named, by run or by sweep."""
    gone = Step("delete", make_trial(), None)
    assert said(gone) == [
        "Deletes Job research/train-1-2 of trial train-1: it has ended, or is queued and its parameter set was removed."
    ]
    for name in ("train", "train-1"):
        assert said(gone, view=View(live=True, stop=[name]))[0].startswith("**Stops run train-1**")


def test_without_a_cluster_nobody_knows_which_trials_of_a_job_are_new() -> None:
    """The files' Job of all trials has another name with each set; no run is dropped by that."""
    before, after = make_trial(), make_trial("train-2-3", **{"trainstack.dev/run": "train-2"})
    assert said(Step("replace", before, after), view=View(live=False)) == [
        "Changes the parameter sets of sweep train, or its run; only new trials are launched."
    ]
    one_by_one = [make_trial(**{"trainstack.dev/set": "a"}), make_trial(**{"trainstack.dev/set": "b"})]
    assert said(Step("create", None, one_by_one[0]), view=View(live=False))[0].startswith("Declares run train-1 ")


def test_without_a_cluster_a_launch_is_declared_or_edited() -> None:
    """Whether it ran before is not known."""
    view = View(live=False)
    assert said(Step("create", None, make_job()), view=view)[0].startswith("Declares run train-1 ")
    edited = Step("replace", make_job(), make_job(name="train-1-3"))
    assert said(edited, view=view)[0].startswith("Edits run train-1 (Job research/train-1-3)")


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (Step("create", None, make_claim("1Gi")), "Creates volume research/data of 1Gi."),
        (Step("update", make_claim("1Gi"), make_claim("2Gi")), "Resizes volume research/data from 1Gi to 2Gi."),
        (Step("update", make_claim("1Gi"), make_claim("1Gi")), "Edits volume research/data."),
        (Step("delete", make_claim("1Gi"), None), "**Deletes volume research/data and its data.**"),
        (
            Step("delete", make_claim("1Gi"), None, retained=True),
            "Releases volume research/data; it remains in the cluster with its data.",
        ),
        (
            Step("replace", make_claim("1Gi"), make_claim("1Gi")),
            "**Replaces volume research/data and deletes its data.**",
        ),
    ],
)
def test_volumes(step: Step, words: str) -> None:
    """What happens to the data is said first of all."""
    assert said(step) == [words]


def test_quota_that_moves_is_told_by_resource_and_flavor() -> None:
    """Limits too; what is not set is none."""
    before, after = make_quota(nominalQuota="8"), make_quota(nominalQuota="16", borrowingLimit="4")
    assert said(Step("update", before, after)) == [
        "Changes the quota of cluster queue research: nvidia.com/gpu borrowing limit on flavor a100 from none to 4.",
        "Changes the quota of cluster queue research: nvidia.com/gpu on flavor a100 from 8 to 16.",
    ]


def test_a_cluster_queue_has_no_namespace() -> None:
    """Not the one that the provider gives to a kind whose definition does not exist yet."""
    made = make_quota(nominalQuota="8")
    made["metadata"] = {**made["metadata"], "namespace": "default"}
    (sentence,) = said(Step("create", None, made))
    assert sentence.startswith("Creates cluster queue research: ")


def test_the_gravest_comes_first() -> None:
    """A lost volume before a launch."""
    steps = Step("create", None, make_job()), Step("delete", make_claim("1Gi"), None)
    assert [fact.meaning for fact in facts(steps, LIVE)] == ["volume-lost", "run-launched"]


def test_what_people_do_not_notice_is_no_fact() -> None:
    """A ledger carries a run's label too, and is no launch."""
    ledger = {**make_job(), "kind": "ConfigMap"}
    assert facts([Step("create", None, ledger)], LIVE) == []
    assert facts([Step("create", None, {"kind": "ServiceAccount", "metadata": {"name": "a"}})], LIVE) == []


def test_a_fact_is_what_it_says() -> None:
    """Facts compare by value."""
    assert facts([Step("delete", make_claim("1Gi"), None)], LIVE) == [Fact("volume-lost", ("research/data",))]


def test_rights_are_told_by_who_gets_and_who_loses_them() -> None:
    """Of teams; a controller's binding says nothing to people."""

    def binding(*groups: str) -> dict[str, Any]:
        *_, last = rights(Team(name="vision", namespace="vision", groups=groups, service_account="ci"), "lab")
        return last

    assert said(Step("create", None, binding("ml"))) == [
        "Grants rights in namespace vision to Group ml, ServiceAccount ci."
    ]
    assert said(Step("update", binding("ml"), binding("cv"))) == [
        "Revokes rights in namespace vision from Group ml.",
        "Grants rights in namespace vision to Group cv.",
    ]
    assert said(Step("delete", binding("ml"), None)) == [
        "Revokes rights in namespace vision from Group ml, ServiceAccount ci."
    ]
    controller = binding("ml")
    controller["metadata"]["name"] = "leader-election"
    assert said(Step("create", None, controller)) == []

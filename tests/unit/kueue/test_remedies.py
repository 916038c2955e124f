"""Remedies are edits of settings: applied to the files, they load and have the promised outcome."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.kueue.remedy_files import (
    Config,
    apply,
    make_config,
    make_pool,
    outcomes,
    verdicts,
    with_what_if,
    write,
)
from trainstack.cli.commands.sweep_expand import expand_sweeps
from trainstack.files.project import edit_project
from trainstack.kueue.verdict import Change, Remedy
from trainstack.settings.loading.load import load

RUN = "workloads.runs[train]"


def remedies(root: Path, config: Config, path: str = RUN) -> dict[str, Remedy]:
    """Return the remedies of a run that never fits, by their texts, after each was applied to the files."""
    (verdict,) = (verdict for verdict in verdicts(write(root, config)) if verdict.path == path)
    assert verdict.outcome == "never fits"
    for remedy in verdict.remedies:
        assert remedy.changes
        assert remedy.outcome in ("fits", "fits by borrowing")
        assert outcomes(with_what_if(root, remedy.changes))[path] == remedy.outcome, remedy
        changed = apply(config, remedy.changes)
        assert outcomes(load(write(root, changed), "t"))[path] == remedy.outcome, remedy
        write(root, config)
    return {remedy.text: remedy for remedy in verdict.remedies}


def requests(**amounts: Any) -> Config:
    """Return the resources of a run; `gpu` is `nvidia.com/gpu`."""
    return {"requests": {"nvidia.com/gpu" if key == "gpu" else key: amount for key, amount in amounts.items()}}


def of_release(config: Config, version: str) -> Config:
    """Return the environment with another release of Kueue."""
    kueue = {**config["operators"]["kueue"], "manifest": {"version": version, "path": "kueue.yaml", "sha256": "0" * 64}}
    return {**config, "operators": {**config["operators"], "kueue": kueue}}


def container(name: str, **amounts: Any) -> Config:
    return {"name": name, "image": "i", "resources": requests(**amounts)}


def test_another_queue_of_the_namespace_is_the_first_remedy(tmp_path: Path) -> None:
    """The run must fit on that queue."""
    pools = [make_pool(), make_pool(name="small"), make_pool({"cpu": {"cpu": 9}}, "large")]
    found = remedies(tmp_path, make_config({"resources": requests(cpu=8)}, *pools))
    assert next(iter(found.values())) == Remedy("use queue large", (Change(f"{RUN}.queue", "q", "large"),), "fits")


def test_quota_is_raised_by_the_missing_amount(tmp_path: Path) -> None:
    """One remedy has all insufficient resources, with the settings' paths, and amounts that nothing rounds."""
    pool = make_pool({"cpu": {"cpu": "3500m", "memory": "4Gi"}})
    found = remedies(tmp_path, make_config({"resources": requests(cpu=5, memory=8589934593)}, pool))
    text = (
        "in cluster queue q, raise nominalQuota of cpu on cpu from 3500m to 5 and raise nominalQuota of memory on cpu "
        "from 4Gi to 8589934593"
    )
    path = "queues.clusterQueues[q].resourceGroups[0].flavors[cpu].resources"
    assert found[text].changes == (
        Change(f"{path}[cpu].nominalQuota", "3500m", "5"),
        Change(f"{path}[memory].nominalQuota", "4Gi", "8589934593"),
    )


@pytest.mark.parametrize(("pool_of_gpus", "helps"), [("a", True), ("b", False)])
def test_no_remedy_leads_to_flavors_of_different_nodes(tmp_path: Path, pool_of_gpus: str, helps: bool) -> None:
    """With enough quota, pods would need nodes of both pools."""
    pool = make_pool()
    pool["resourceGroups"] += make_pool({"gpu": {"nvidia.com/gpu": 1}})["resourceGroups"]
    flavors = [
        {"name": "cpu", "nodeLabels": {"pool": "a"}},
        {"name": "gpu", "nodeLabels": {"pool": pool_of_gpus}},
    ]
    resources = {"requests": {"cpu": 1}, "limits": {"nvidia.com/gpu": 2}}
    found = remedies(tmp_path, make_config({"resources": resources}, pool, flavors=flavors))
    assert any("raise nominalQuota" in text for text in found) is helps


@pytest.mark.parametrize(("lent", "helps"), [(9, True), (1, False)])
def test_a_borrowing_limit_may_be_raised(tmp_path: Path, lent: int, helps: bool) -> None:
    """The cohort must have enough quota; otherwise only the queue's own quota would help."""
    pool = make_pool(cohort="lab")
    pool["resourceGroups"][0]["flavors"][0]["resources"][0]["borrowingLimit"] = 1
    config = make_config({"resources": requests(cpu=7)}, pool, make_pool({"cpu": {"cpu": lent}}, "r", cohort="lab"))
    limit = "in cluster queue q, raise borrowingLimit of cpu on cpu from 1 to 3"
    found = remedies(tmp_path, config)
    assert (limit in found) == helps
    assert not helps or found[limit].outcome == "fits by borrowing"


REPLICATED = {"kind": "JobSet", "resources": requests(cpu=1)}
PODS: dict[str, tuple[Config, str]] = {
    "parallelism": (
        {"parallelism": 9, "completions": 20, "resources": requests(cpu=1)},
        "lower parallelism from 9 to 4",
    ),
    "a work queue": ({"parallelism": 9, "resources": requests(cpu=1)}, "lower parallelism from 9 to 4"),
    "completions below parallelism": (
        {"parallelism": 9, "completions": 6, "resources": requests(cpu=1)},
        "lower parallelism from 9 to 4",
    ),
    "minParallelism": (
        {"parallelism": 9, "completions": 9, "minParallelism": 7, "resources": requests(cpu=1)},
        "lower minParallelism from 7 to 4",
    ),
    "roles": (
        {
            "kind": "PyTorchJob",
            "roles": {"Master": {}, "Worker": {"replicas": 5}},
            "resources": requests(cpu=1),
        },
        "lower roles.Worker.replicas from 5 to 3",
    ),
    "TrainJob": (
        {"kind": "TrainJob", "roles": {"Master": {}, "Worker": {"replicas": 5}}, "resources": requests(cpu=1)},
        "lower roles.Worker.replicas from 5 to 3",
    ),
    "Jobs of a JobSet": (
        {**REPLICATED, "replicatedJobs": [{"name": "w", "replicas": 3, "parallelism": 2}]},
        "lower replicatedJobs[w].replicas from 3 to 2",
    ),
    "pods of a JobSet": (
        {**REPLICATED, "replicatedJobs": [{"name": "w", "parallelism": 6}]},
        "lower replicatedJobs[w].parallelism from 6 to 4",
    ),
    "pods of a JobSet, all to succeed": (
        {**REPLICATED, "replicatedJobs": [{"name": "w", "parallelism": 6, "completions": 6}]},
        "lower replicatedJobs[w].parallelism from 6 to 4 and replicatedJobs[w].completions from 6 to 4",
    ),
}


@pytest.mark.parametrize("name", PODS)
def test_fewer_pods_are_a_smaller_number_in_the_settings(tmp_path: Path, name: str) -> None:
    """The setting depends on the kind; the number is the largest that fits, and the settings still load."""
    run, text = PODS[name]
    assert text in remedies(tmp_path, make_config(run, make_pool()))


def test_fewer_pods_replace_a_minimum_that_kueue_ignores(tmp_path: Path) -> None:
    """Without partial admission all pods are counted, and `minParallelism` must be smaller than `parallelism`."""
    run = {"parallelism": 9, "completions": 9, "minParallelism": 7, "resources": requests(cpu=1)}
    found = remedies(tmp_path, make_config(run, make_pool(), featureGates={"PartialAdmission": False}))
    assert "lower parallelism from 9 to 4 and remove minParallelism" in found


def test_elastic_workers_are_at_least_the_minimum(tmp_path: Path) -> None:
    """Fewer workers than `elastic.minReplicas` do not train."""
    run = {"kind": "PyTorchJob", "roles": {"Worker": {"replicas": 6}}, "resources": requests(cpu=1)}
    for least, offered in ((2, True), (5, False)):
        config = make_config({**run, "elastic": {"minReplicas": least, "maxReplicas": 6}}, make_pool())
        assert ("lower roles.Worker.replicas from 6 to 4" in remedies(tmp_path, config)) == offered


SMALLER: dict[str, tuple[Config, str]] = {
    "a request": ({"resources": requests(cpu=6)}, "lower resources.requests.cpu from 6 to 4"),
    "a limit without a request": (
        {"resources": {"limits": {"cpu": 6}}},
        "lower resources.limits.cpu from 6 to 4",
    ),
    "a request and a limit": (
        {"resources": {"requests": {"cpu": 6}, "limits": {"cpu": 8}}},
        "lower resources.requests.cpu from 6 to 4",
    ),
    "overhead": (
        {"resources": requests(cpu=4), "podPatch": {"spec": {"overhead": {"cpu": "500m"}}}},
        "lower resources.requests.cpu from 4 to 3500m",
    ),
    "a second container": (
        {"resources": requests(cpu=4), "podPatch": {"spec": {"containers": [container("log", cpu="500m")]}}},
        "lower resources.requests.cpu from 4 to 3500m",
    ),
    "a sidecar": (
        {
            "resources": requests(cpu=4),
            "podPatch": {"spec": {"initContainers": [{**container("log", cpu="1.5"), "restartPolicy": "Always"}]}},
        },
        "lower resources.requests.cpu from 4 to 2500m",
    ),
    "less than a thousandth": (
        {"resources": requests(cpu="4.0005")},
        "lower resources.requests.cpu from 4000500u to 3999m",
    ),
    "a role's own": (
        {
            "kind": "PyTorchJob",
            "roles": {"Master": {}, "Worker": {"resources": requests(cpu=6)}},
            "resources": requests(cpu=1),
        },
        "lower roles.Worker.resources.requests.cpu from 6 to 3",
    ),
    "shared by roles": (
        {"kind": "PyTorchJob", "roles": {"Master": {}, "Worker": {}}, "resources": requests(cpu=3)},
        "lower resources.requests.cpu from 3 to 2",
    ),
}


@pytest.mark.parametrize("name", SMALLER)
def test_a_smaller_request_is_of_the_setting_not_of_the_pod(tmp_path: Path, name: str) -> None:
    """What sidecars, other containers and the overhead add is not in the setting, and stays."""
    run, text = SMALLER[name]
    assert text in remedies(tmp_path, make_config(run, make_pool()))


def test_devices_are_lowered_in_requests_and_limits(tmp_path: Path) -> None:
    """The API server requires both to be equal."""
    pool = make_pool({"cpu": {"cpu": 4, "nvidia.com/gpu": 4}})
    resources = {"requests": {"cpu": 1, "nvidia.com/gpu": 6}, "limits": {"nvidia.com/gpu": 6}}
    text = 'lower resources.requests["nvidia.com/gpu"] from 6 to 4 and resources.limits["nvidia.com/gpu"] from 6 to 4'
    assert text in remedies(tmp_path, make_config({"resources": resources}, pool))


def test_huge_pages_stay_whole(tmp_path: Path) -> None:
    """The amount is a multiple of the page."""
    pool = make_pool({"cpu": {"cpu": 4, "hugepages-2Mi": "5Mi"}})
    resources = {"requests": {"cpu": 1}, "limits": {"hugepages-2Mi": "8Mi"}}
    assert "lower resources.limits.hugepages-2Mi from 8Mi to 4Mi" in remedies(
        tmp_path, make_config({"resources": resources}, pool)
    )


def test_a_request_that_the_patch_replaces_is_not_lowered(tmp_path: Path) -> None:
    """The setting has no effect then."""
    run = {
        "resources": requests(cpu=5),
        "podPatch": {"spec": {"containers": [{"name": "training", "resources": requests(cpu=6)}]}},
    }
    assert [*remedies(tmp_path, make_config(run, make_pool()))] == [
        "in cluster queue q, raise nominalQuota of cpu on cpu from 4 to 6"
    ]


SLICES = [{"input": "example.com/slice", "strategy": "Replace", "outputs": {"example.com/memory": "5"}}]


def test_the_input_of_a_transformation_is_lowered(tmp_path: Path) -> None:
    """Its output is what the quota lacks, and no pod requests it."""
    pool = make_pool({"cpu": {"cpu": 4, "example.com/memory": 12}})
    run = {"resources": {"requests": {"cpu": 1}, "limits": {"example.com/slice": 4}}}
    found = remedies(tmp_path, make_config(run, pool, transformations=SLICES))
    assert 'lower resources.limits["example.com/slice"] from 4 to 2' in found
    assert not any("example.com/memory from" in text for text in found)


def test_the_input_of_a_transformation_is_removed(tmp_path: Path) -> None:
    """The cluster queue covers no output of it."""
    run = {"resources": {"requests": {"cpu": 1}, "limits": {"example.com/slice": 4}}}
    found = remedies(tmp_path, make_config(run, make_pool(), transformations=SLICES))
    assert [*found] == [
        "cover example.com/memory (at least 20) in cluster queue q",
        'remove resources.limits["example.com/slice"]',
    ]


def test_an_uncovered_resource_may_be_covered_or_removed(tmp_path: Path) -> None:
    """Every flavor of the group gets a quota, without which Kueue refuses the queue."""
    run = {"parallelism": 2, "completions": 2, "resources": requests(cpu=1, gpu=3)}
    pool = make_pool({"a": {"cpu": 4}, "b": {"cpu": 4}})
    found = remedies(tmp_path, make_config(run, pool, flavors=[{"name": "a"}, {"name": "b"}]))
    assert [*found] == [
        "cover nvidia.com/gpu (at least 6) in cluster queue q",
        'remove resources.requests["nvidia.com/gpu"]',
    ]
    cover = found["cover nvidia.com/gpu (at least 6) in cluster queue q"]
    assert [change.path.partition("resourceGroups[0].")[2] for change in cover.changes] == [
        "coveredResources",
        "flavors[a].resources",
        "flavors[b].resources",
    ]


def test_a_run_does_not_lose_its_last_request(tmp_path: Path) -> None:
    """A run that requests nothing would fit on no flavor."""
    found = remedies(tmp_path, make_config({"resources": requests(gpu=3)}, make_pool()))
    assert [*found] == ["cover nvidia.com/gpu (at least 3) in cluster queue q"]


FLAVORS: list[Config] = [
    {"name": "a", "nodeLabels": {"pool": "a"}, "nodeTaints": [{"key": "spot", "value": "yes", "effect": "NoSchedule"}]},
    {"name": "b", "nodeLabels": {"pool": "b", "disk": "ssd"}},
]
TWO = {"a": {"cpu": 4}, "b": {"cpu": 4}}


def affinity(*terms: list[Config], **others: Any) -> Config:
    """Return a run with a required node affinity of these terms."""
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions} for expressions in terms]}
    nodes = {"requiredDuringSchedulingIgnoredDuringExecution": required, **others}
    return {"affinity": {"nodeAffinity": nodes}, "resources": requests(cpu=1)}


def test_a_toleration_or_selector_may_match_another_flavor(tmp_path: Path) -> None:
    """The flavor must have enough quota. Tolerations that the run has are kept."""
    run = {
        "nodeSelector": {"pool": "a"},
        "tolerations": [{"key": "other", "operator": "Exists"}],
        "resources": requests(cpu=1),
    }
    found = remedies(tmp_path, make_config(run, make_pool(TWO), flavors=FLAVORS))
    assert [*found] == [
        "add spot=yes:NoSchedule to tolerations, for flavor a",
        "set nodeSelector.pool to b instead of a, for flavor b",
    ]
    (tolerate,) = found["add spot=yes:NoSchedule to tolerations, for flavor a"].changes
    assert [one["key"] for one in tolerate.after] == ["other", "spot"]


def test_the_setting_of_a_role_is_changed_where_the_role_has_its_own(tmp_path: Path) -> None:
    """The setting of the run stays for the other roles."""
    worker = {"nodeSelector": {"pool": "c"}, "affinity": affinity([POOL])["affinity"], "tolerations": []}
    run = {
        "kind": "PyTorchJob",
        "nodeSelector": {"pool": "b"},
        "roles": {"Master": {}, "Worker": worker},
        "resources": requests(cpu=1),
    }
    found = remedies(tmp_path, make_config(run, make_pool(TWO), flavors=FLAVORS))
    selector = "set roles.Worker.nodeSelector.pool to {0} instead of c and require pool In {0} instead of pool In c in "
    term = f"roles.Worker.{REQUIRED}.nodeSelectorTerms[0], for flavor "
    assert [*found] == [
        f"add spot=yes:NoSchedule to roles.Worker.tolerations and {selector.format('a')}{term}a",
        f"{selector.format('b')}{term}b",
    ]


@pytest.mark.parametrize(("release", "removal"), [("v0.17.0", " and remove nodeSelector.disk (hdd)"), ("v0.19.2", "")])
def test_a_flavor_may_need_a_toleration_and_a_selector(tmp_path: Path, release: str, removal: str) -> None:
    """Both are changes of one remedy. A label that the flavor does not have is removed if the release compares it."""
    run = {"nodeSelector": {"pool": "c", "disk": "hdd"}, "resources": requests(cpu=1)}
    flavors: list[Config] = [{**FLAVORS[0], "nodeLabels": {"pool": "a"}}, {"name": "b", "nodeLabels": {"disk": "ssd"}}]
    config = make_config(run, make_pool({"a": {"cpu": 4}, "b": {"cpu": 0}}), flavors=flavors)
    found = remedies(tmp_path, of_release(config, release))
    text = f"add spot=yes:NoSchedule to tolerations and set nodeSelector.pool to a instead of c{removal}, for flavor a"
    assert [*found] == [text]


REQUIRED = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
POOL = {"key": "pool", "operator": "In", "values": ["c"]}
GPU = {"key": "gpu", "operator": "Exists"}
AFFINITY: dict[str, tuple[Config, str]] = {
    "another value": (affinity([POOL]), f"require pool In b instead of pool In c in {REQUIRED}.nodeSelectorTerms[0]"),
    "the nearest term": (
        affinity([POOL, {"key": "disk", "operator": "DoesNotExist"}], [POOL, GPU]),
        f"require pool In b instead of pool In c in {REQUIRED}.nodeSelectorTerms[1]",
    ),
    "a label that the flavor lacks": (
        affinity([{"key": "zone", "operator": "Exists"}, GPU]),
        f"do not require zone Exists in {REQUIRED}.nodeSelectorTerms[0]",
    ),
    "nothing else": (affinity([{"key": "zone", "operator": "Exists"}]), "remove affinity (zone Exists)"),
    "with a preference": (
        affinity(
            [{"key": "zone", "operator": "Exists"}],
            preferredDuringSchedulingIgnoredDuringExecution=[{"weight": 1, "preference": {"matchExpressions": [GPU]}}],
        ),
        f"remove {REQUIRED} (zone Exists)",
    ),
}


@pytest.mark.parametrize("name", AFFINITY)
def test_a_required_affinity_is_changed_where_it_is_set(tmp_path: Path, name: str) -> None:
    """The node selector is empty, and what the flavor meets stays. Later releases ignore labels of other flavors."""
    run, text = AFFINITY[name]
    flavors: list[Config] = [FLAVORS[1], {**FLAVORS[0], "name": "z", "nodeLabels": {"zone": "z"}}]
    config = make_config(run, make_pool({"b": {"cpu": 4}, "z": {"cpu": 0}}), flavors=flavors)
    found = remedies(tmp_path, of_release(config, "v0.17.0"))
    assert f"{text}, for flavor b" in found
    assert not any("nodeSelector " in text for text in found)


def test_a_label_that_reads_like_a_number_stays_a_text(tmp_path: Path) -> None:
    flavors = [{"name": "cpu", "nodeLabels": {"gen": "2"}}]
    run = {"nodeSelector": {"gen": "true"}, "resources": requests(cpu=1)}
    found = remedies(tmp_path, make_config(run, make_pool(), flavors=flavors))
    assert [*found] == ["set nodeSelector.gen to 2 instead of true, for flavor cpu"]


def test_a_queue_may_be_opened_to_the_runs_namespace(tmp_path: Path) -> None:
    """The namespaces that it has stay."""
    config = make_config({"resources": requests(cpu=1)}, make_pool(namespaces=["other"]))
    (opened,) = remedies(tmp_path, config).values()
    assert opened.text == "add ns to the namespaces of cluster queue q"
    assert opened.changes == (Change("queues.clusterQueues[q].namespaces", ("other",), ("other", "ns")),)


def test_what_only_a_shared_file_sets_is_changed_in_the_environments(tmp_path: Path) -> None:
    """`null` removes what `workload.yaml` sets."""
    shared = {"nodeSelector": {"disk": "hdd", "pool": "c"}, "resources": requests(cpu=6, gpu=1)}
    (tmp_path / "workloads" / "train").mkdir(parents=True)
    (tmp_path / "workloads" / "train" / "workload.yaml").write_text(yaml.safe_dump(shared))
    pool = make_pool({"cpu": {"cpu": 6}})
    uncovered = remedies(tmp_path, make_config({}, pool, flavors=[{"name": "cpu"}]))
    assert 'remove resources.requests["nvidia.com/gpu"]' in uncovered
    own = {"resources": {"requests": {"nvidia.com/gpu": None}}}
    flavors = [{"name": "cpu", "nodeLabels": {"pool": "b"}}, {"name": "d", "nodeLabels": {"disk": "ssd"}}]
    pool = make_pool({"cpu": {"cpu": 6}, "d": {"cpu": 0}})
    assert [*remedies(tmp_path, of_release(make_config(own, pool, flavors=flavors), "v0.17.0"))] == [
        "remove nodeSelector.disk (hdd) and set nodeSelector.pool to b instead of c, for flavor cpu"
    ]


def test_an_excluded_run_does_not_keep_remedies_away(tmp_path: Path) -> None:
    config = make_config({"resources": requests(cpu=8)}, make_pool())
    runs = config["workloads"]["runs"]
    config["workloads"] = {"runs": [*runs, {**runs[0], "name": "other"}], "exclude": ["other"]}
    assert "lower resources.requests.cpu from 8 to 4" in remedies(tmp_path, config)


def test_an_ineffective_remedy_is_not_reported(tmp_path: Path) -> None:
    """More quota does not help if an admission check is missing."""
    pools = [make_pool(admissionChecks=[{"name": "gone"}]), make_pool(name="r", admissionChecks=[{"name": "gone"}])]
    assert remedies(tmp_path, make_config({"resources": requests(cpu=9)}, *pools)) == {}


def test_runs_of_one_name_are_told_apart_by_their_index(tmp_path: Path) -> None:
    """The path of a run whose name is not unique has its index, also in the changes."""
    config = make_config({"resources": requests(cpu=1)}, make_pool())
    queues, runs = config["queues"], config["workloads"]["runs"]
    config["environment"]["namespaces"].append({"name": "ns2"})
    queues["localQueues"].append({"name": "q", "namespace": "ns2", "clusterQueue": "q"})
    runs.append({**runs[0], "namespace": "ns2", "resources": requests(cpu=8)})
    found = remedies(tmp_path, config, "workloads.runs[1]")
    assert [change.path for change in found["lower resources.requests.cpu from 8 to 4"].changes] == [
        "workloads.runs[1].resources.requests.cpu"
    ]


def test_a_run_of_any_other_kind_has_remedies(tmp_path: Path) -> None:
    """The number of pods is a role's, wherever the object has it."""
    worker = {"name": "worker", "template": "spec.worker.template", "replicas": "spec.worker.replicas"}
    kind = {"apiVersion": "kubeflow.org/v1", "kind": "JAXJob", "framework": "kubeflow.org/jaxjob", "pods": [worker]}
    run = {"kind": "Object", "object": kind, "roles": {"worker": {"replicas": 6}}, "resources": requests(cpu=1)}
    assert "lower roles.worker.replicas from 6 to 4" in remedies(tmp_path, make_config(run, make_pool()))


def test_a_queue_that_kueue_gives_a_run_is_replaced_by_one_that_it_names(tmp_path: Path) -> None:
    """The run names none, and gets the queue `default`."""
    pools = [make_pool(name="default"), make_pool({"cpu": {"cpu": 9}}, "large")]
    found = remedies(tmp_path, make_config({"queue": None, "resources": requests(cpu=8)}, *pools))
    assert found["use queue large"].changes == (Change(f"{RUN}.queue", None, "large"),)


@pytest.mark.parametrize("form", ["jobs", "indexed"])
def test_remedies_for_trials_are_settings_of_the_sweep(tmp_path: Path, form: str) -> None:
    """The gang of form `indexed` is the sweep's `parallelism`; in form `jobs` that limits trials, not pods."""
    run = {**make_run_of_sweep(), "resources": requests(cpu=3 if form == "indexed" else 9)}
    sweep = {"name": "search", "run": run, "form": form, "parallelism": 4}
    config = make_config({}, make_pool({"cpu": {"cpu": 6}}))
    config["workloads"], config["sweeps"] = {"runs": []}, {"sweeps": [sweep]}
    write_sets(tmp_path)
    found = remedies(tmp_path, config, "sweeps.sweeps[search].run")
    smaller = "lower resources.requests.cpu from 3 to 1500m" if form == "indexed" else "from 9 to 6"
    assert any(text.endswith(smaller) for text in found)
    assert ("lower sweeps.sweeps[search].parallelism from 4 to 2" in found) == (form == "indexed")


def make_run_of_sweep() -> Config:
    volume = {"volume": "data", "mountPath": "/data"}
    return {
        "kind": "Job",
        "namespace": "ns",
        "queue": "q",
        "image": {"name": "i"},
        "command": ["train"],
        "record": {"volume": "data"},
        "volumes": [volume],
    }


def write_sets(root: Path) -> None:
    """Write the space and the four sets of the sweep `search`."""
    (root / "sweeps" / "search").mkdir(parents=True)
    (root / "sweeps" / "search" / "space.yaml").write_text(json.dumps(SPACE))
    with edit_project(root) as edit:
        expand_sweeps(root, ["search"], edit)


SPACE = {
    "method": "grid",
    "parameters": {"size": {"values": [1, 2, 3, 4]}},
    "objective": {"metric": "loss", "direction": "minimize"},
    "args": ["--size=${parameters.size}"],
}


def test_other_runs_and_queues_are_left_out_of_the_judgement(tmp_path: Path) -> None:
    """Queues of the cohort count, and those of others do not: the outcome is that of all files."""
    pools = [
        make_pool({"cpu": {"cpu": 2}}, cohort="lab"),
        make_pool({"cpu": {"cpu": 5}}, "r", cohort="lab"),
        make_pool({"cpu": {"cpu": 3}}, "s"),
    ]
    found = remedies(tmp_path, make_config({"resources": requests(cpu=9)}, *pools))
    assert {text: remedy.outcome for text, remedy in found.items()} == {
        "in cluster queue q, raise nominalQuota of cpu on cpu from 2 to 4": "fits by borrowing",
        "lower resources.requests.cpu from 9 to 7": "fits by borrowing",
    }

"""The edits that make another run, and those that do not."""

from typing import Any

import pytest

from tests.unit.make import make_distributed, make_mount, make_run, make_runtime_run
from trainstack.runs.identity import Facts, run_id
from trainstack.runs.manifests.build import plan_launch
from trainstack.settings.base import Toleration
from trainstack.settings.sections.affinity import Affinity
from trainstack.settings.sections.elastic import Elastic
from trainstack.settings.sections.pod_options import Capabilities, Scratch
from trainstack.settings.sections.secrets import EnvSource, SecretValue
from trainstack.settings.sections.workloads import Image, Resources, Role, Workload

SAME, OTHER = True, False


def make_facts(**changes: Any) -> Facts:
    """Return the facts that `make_run` depends on in addition to its settings."""
    return Facts(
        **{"image": "python:3.11", "data_digest": None, "wrapper": "trainstack-wrapper-0", "commit": "a", **changes}
    )


def edited(workload: Workload, **changes: Any) -> Workload:
    """Return the validated workload with changes."""
    fields = {name: getattr(workload, name) for name in workload.model_fields_set}
    return Workload(**{**fields, **changes})


EDITS: list[tuple[dict[str, Any], bool]] = [
    ({"command": ("python3", "other.py")}, OTHER),
    ({"args": ("--lr=0.1",)}, OTHER),
    ({"env": {"LR": "0.1"}}, OTHER),
    ({"secret_env": {"KEY": SecretValue(secret="store", key="id")}}, OTHER),
    ({"field_env": {"POD": "metadata.name"}}, OTHER),
    ({"env_from": (EnvSource(secret="store"),)}, OTHER),
    ({"working_dir": "/work"}, OTHER),
    ({"seed": 1}, OTHER),
    ({"attempt": 2}, OTHER),
    ({"completions": 2}, OTHER),
    ({"name": "other"}, OTHER),
    ({"namespace": "other"}, SAME),
    ({"queue": "other"}, SAME),
    ({"queue": None}, SAME),
    ({"priority": "high"}, SAME),
    ({"resources": Resources(requests={"cpu": "4", "memory": "64Gi"})}, SAME),
    ({"shared_memory": "1Gi"}, SAME),
    ({"labels": {"team": "a"}}, SAME),
    ({"object_annotations": {"a": "b"}}, SAME),
    ({"annotations": {"sidecar.istio.io/inject": "false"}}, SAME),
    ({"node_selector": {"disk": "fast"}}, SAME),
    ({"tolerations": (Toleration(operator="Exists"),)}, SAME),
    ({"affinity": Affinity()}, SAME),
    ({"scratch": (Scratch(name="a", mount_path="/a"),)}, SAME),
    ({"capabilities": Capabilities(add=("KILL",))}, SAME),
    ({"host_network": True}, SAME),
    ({"pod_patch": {"spec": {"nodeSelector": {"disk": "fast"}}}}, SAME),
    ({"pod_patch": {"spec": {"containers": [{"name": "training", "env": [{"name": "A", "value": "b"}]}]}}}, OTHER),
    ({"pod_patch": {"spec": {"volumes": [{"name": "model", "image": {"reference": "model:1"}}]}}}, OTHER),
    ({"pod_patch": {"spec": {"volumes": [{"name": "model", "emptyDir": {}}]}}}, SAME),
    ({"run_as_user": 1000}, SAME),
    ({"run_as_group": 1000}, SAME),
    ({"fs_group": 1000}, SAME),
    ({"host_ipc": True}, SAME),
    ({"priority_class_name": "high"}, SAME),
    ({"security": "baseline"}, SAME),
    ({"service_account": "reader"}, SAME),
    ({"image_pull_policy": "Always"}, SAME),
    ({"image_pull_secrets": ("registry",)}, SAME),
    ({"volumes": (make_mount(mount_path="/elsewhere"),)}, SAME),
    ({"volumes": (make_mount(sub_path="part"),)}, SAME),
    ({"parallelism": 2}, SAME),  # A managed Job has one pod unless `completions` are set.
    ({"backoff_limit": 3}, SAME),
    ({"restart_policy": "OnFailure"}, SAME),
    ({"active_deadline_seconds": 60}, SAME),
    ({"ttl_seconds_after_finished": 60}, SAME),
    ({"naming": "fixed"}, SAME),
    ({"container": "main"}, SAME),
]


@pytest.mark.parametrize(("changes", "same"), EDITS, ids=[next(iter(changes)) for changes, _ in EDITS])
def test_an_edit_makes_another_run_only_if_it_would_change_the_result(changes: dict[str, Any], same: bool) -> None:
    """More memory resumes the same run; another learning rate is another run."""
    before = run_id(make_run(), make_facts())
    assert (run_id(edited(make_run(), **changes), make_facts()) == before) is same


def test_min_parallelism_makes_no_other_run() -> None:
    """Parallelism does not either."""
    several = make_run(completions=4, parallelism=3)
    assert run_id(edited(several, min_parallelism=2), make_facts()) == run_id(several, make_facts())


ROLE_EDITS = [
    ({"Master": Role(), "Worker": Role(replicas=3)}, OTHER),
    ({"Master": Role(), "Worker": Role(replicas=2, args=("--x",))}, OTHER),
    ({"Master": Role(), "Worker": Role(replicas=2, env={"A": "b"})}, OTHER),
    ({"Master": Role()}, OTHER),
    ({"Master": Role(args=()), "Worker": Role(replicas=2, env={})}, SAME),
    ({"Master": Role(), "Worker": Role(replicas=2, resources=Resources(limits={"cpu": "4"}))}, SAME),
    ({"Master": Role(), "Worker": Role(replicas=2, volumes=())}, SAME),
    ({"Master": Role(), "Worker": Role(replicas=2, restart_policy="Never")}, SAME),
    ({"Master": Role(annotations={"a": "b"}), "Worker": Role(replicas=2)}, SAME),
]


@pytest.mark.parametrize(("roles", "same"), ROLE_EDITS)
def test_replicas_and_programs_of_roles_are_part_of_the_id(roles: dict[str, Role], same: bool) -> None:
    """World size, arguments and environment count; a value of a role that equals the workload's does not."""
    before = run_id(make_distributed(), make_facts())
    assert (run_id(edited(make_distributed(), roles=roles), make_facts()) == before) is same


def test_the_runtime_of_the_cluster_is_part_of_the_id() -> None:
    """Another one may have other variables and volumes."""
    before = run_id(make_runtime_run(), make_facts())
    assert run_id(edited(make_runtime_run(), runtime="jax-distributed"), make_facts()) != before


ELASTIC_EDITS = [
    ({"elastic": Elastic(max_replicas=4)}, OTHER),
    ({"elastic": Elastic(max_replicas=3, max_restarts=9)}, SAME),
    ({"nproc_per_node": "2"}, OTHER),
]


@pytest.mark.parametrize(("changes", "same"), ELASTIC_EDITS)
def test_the_maximum_number_of_workers_of_an_elastic_run_is_part_of_the_id(changes: dict[str, Any], same: bool) -> None:
    """The number of restarts is not."""
    elastic = make_distributed(elastic=Elastic(max_replicas=3))
    assert run_id(elastic, make_facts()) != run_id(make_distributed(), make_facts())
    assert (run_id(edited(elastic, **changes), make_facts()) == run_id(elastic, make_facts())) is same


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"image": "python:3.12"}, OTHER),
        ({"data_digest": "0" * 64}, OTHER),
        ({"wrapper": "w-1"}, SAME),
        ({"commit": "b"}, SAME),
    ],
)
def test_image_and_data_count_and_wrapper_and_commit_do_not(changes: dict[str, Any], same: bool) -> None:
    """The image's tag identifies its code, so an unrelated commit makes no other run."""
    assert (run_id(make_run(), make_facts(**changes)) == run_id(make_run(), make_facts())) is same


def test_the_kind_counts() -> None:
    """A single process and the same process as a distributed job's master are two runs."""
    alone = make_run()
    distributed = make_distributed(roles={"Master": Role()})
    assert run_id(alone, make_facts()) != run_id(distributed, make_facts())


def test_a_run_id_does_not_change() -> None:
    """Records and ledgers have ids, so a future version must calculate the same one."""
    workload = make_distributed(image=Image(name="python:3.11"), args=("--lr=0.1",), env={"A": "ü"}, seed=1)
    assert run_id(workload, make_facts(data_digest="0" * 64)) == "train-df639341e3"


LAUNCH_EDITS = [
    ({"queue": "other"}, OTHER),
    ({"priority": "high"}, OTHER),
    ({"resources": Resources(requests={"cpu": "4"})}, OTHER),
    ({"backoff_limit": 1}, OTHER),
    ({"ttl_seconds_after_finished": 60}, OTHER),
    ({"labels": {"team": "a"}}, OTHER),
    ({"image_pull_policy": "Always"}, OTHER),
    ({"naming": "fixed"}, OTHER),
    ({"naming": "generated"}, OTHER),
    ({"container": "main"}, OTHER),
]


@pytest.mark.parametrize(("changes", "same"), LAUNCH_EDITS)
def test_an_edit_of_any_field_makes_another_launch_of_the_same_run(changes: dict[str, Any], same: bool) -> None:
    """An object is therefore neither edited in place nor replaced under the same name."""
    before, after = (plan_launch(run, "dev", make_facts()) for run in (make_run(), edited(make_run(), **changes)))
    assert after.run_id == before.run_id
    assert (after.name == before.name) is same


def test_another_wrapper_is_another_launch_and_another_commit_is_not() -> None:
    """A commit that does not affect a run does not launch it again."""
    before = plan_launch(make_run(), "dev", make_facts())
    assert plan_launch(make_run(), "dev", make_facts(wrapper="trainstack-wrapper-1")).name != before.name
    assert plan_launch(make_run(), "dev", make_facts(commit="b")).name == before.name


DIGEST = f"sha256:{'1' * 64}"


def test_the_digest_of_a_named_image_counts() -> None:
    """A moved tag has other content; without a pin the id is unchanged."""
    ids = [run_id(make_run(), make_facts(image=image)) for image in ("python:3.11", f"python:3.11@{DIGEST}")]
    assert ids[0] == "train-b501a8a0e4"
    assert ids[1] != ids[0]
    assert run_id(make_run(), make_facts(image=f"python:3.11@sha256:{'2' * 64}")) not in ids


def test_the_digest_of_a_built_image_does_not_count() -> None:
    """Its tag already identifies its content, in any registry: a pin makes another launch of the same run."""
    built = make_run(image=Image(build="workloads/digits"))
    plain, pinned = (
        plan_launch(built, "dev", make_facts(image=f"registry.local/trainstack/digits:0123{suffix}"))
        for suffix in ("", f"@{DIGEST}")
    )
    assert plain.run_id == pinned.run_id == "train-5d897915eb"
    assert plain.name != pinned.name

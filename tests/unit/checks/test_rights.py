"""What a tenant lacks, and what it need not have."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.unit.make import make_settings
from trainstack.live import rights, snapshot
from trainstack.live.client import Answer, ClusterError
from trainstack.live.existing import read_existing
from trainstack.live.rights import lacking, uncreatable
from trainstack.live.snapshot import read_launches
from trainstack.runs.records import Ledger, ledger_config_map
from trainstack.runs.status.kinds import KINDS

TEAM = "system:serviceaccount:vision:vision"
JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a", "namespace": "vision"}}
CLAIM = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a", "namespace": "vision"}}
TORCH = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"generateName": "a-", "namespace": "vision"},
}


def make_server(monkeypatch: pytest.MonkeyPatch, *allowed: str, silent: bool = False) -> list[str]:
    """An API server that allows these `<verb> <resource>`; returns what it will be asked. `silent`: no answer."""
    asked: list[str] = []

    async def connect(_: str | None) -> None:
        return None

    async def post(_: object, path: str, body: Mapping[str, Any]) -> Answer:
        if silent:
            return Answer(403, {})
        if path.endswith("selfsubjectreviews"):
            return Answer(201, {"status": {"userInfo": {"username": TEAM}}})
        about = body["spec"]["resourceAttributes"]
        asked.append(
            f"{about['verb']} {about['resource']}.{about['group']} {about['namespace']} {about['name']}".strip()
        )
        may = f"{about['verb']} {about['resource']} {about['name']}".strip()
        return Answer(201, {"status": {"allowed": bool({may, may.rsplit(" ", 1)[0]} & {*allowed})}})

    monkeypatch.setattr(rights, "connect", connect)
    monkeypatch.setattr(rights, "post", post)
    return asked


def test_each_right_that_is_missing_is_told_with_who_gives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked once a kind and namespace, and where that is denied of each object; a made-up name is never patched."""
    asked = make_server(monkeypatch, "create persistentvolumeclaims", "patch persistentvolumeclaims", "create jobs")
    giver = (
        "the platform's owner gives a team all rights that it needs (`trainstack:tenants` in the platform's "
        "environment)"
    )
    assert lacking([JOB, JOB, CLAIM, TORCH], None) == (
        f"{TEAM} may not create pytorchjobs.kubeflow.org in namespace vision; {giver}",
        f"{TEAM} may not patch jobs.batch in namespace vision; {giver}",
    )
    assert sorted(asked) == [
        "create jobs.batch vision",
        "create persistentvolumeclaims. vision",
        "create pytorchjobs.kubeflow.org vision",
        "create pytorchjobs.kubeflow.org vision",
        "patch jobs.batch vision",
        "patch jobs.batch vision a",
        "patch persistentvolumeclaims. vision",
    ]


def test_a_missing_namespace_that_the_user_may_not_create_is_told_with_who_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """By name; an administrator may create any."""
    asked = make_server(monkeypatch, "create namespaces b")
    (told,) = uncreatable(["b", "a"], "lab", None)
    assert told == (
        f"namespace a does not exist, and {TEAM} may not create it; ask an administrator of the cluster to create it "
        "with the roles of the environment: kubectl apply -f rights/lab.yaml"
    )
    assert sorted(asked) == ["create namespaces.  a", "create namespaces.  b"]
    assert uncreatable([], "lab", None) == ()


def test_a_right_on_the_object_alone_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A role may name the volumes that it is for; one that it does not name is told."""
    named = [f"{verb} persistentvolumeclaims a" for verb in ("create", "patch")]
    make_server(monkeypatch, *named)
    assert lacking([CLAIM], None) == ()
    (told,) = lacking([CLAIM, {**CLAIM, "metadata": {"name": "b", "namespace": "vision"}}], None)
    assert told.startswith(f"{TEAM} may not create or patch persistentvolumeclaims in namespace vision; ")


def test_a_server_that_answers_no_such_question_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The change itself will tell."""
    make_server(monkeypatch, silent=True)
    assert lacking([JOB], None) == ()


def make_answers(monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, Answer]) -> None:
    """A cluster that answers by a path or its last part; anything else is an empty list."""

    def read(paths: Sequence[str], _: str | None, **__: bool) -> dict[str, Answer]:
        empty = Answer(200, {"items": []})
        plain = {path: path.partition("?")[0] for path in paths}
        return {path: answers.get(each, answers.get(each.rpartition("/")[2], empty)) for path, each in plain.items()}

    monkeypatch.setattr(snapshot, "read_lists", read)
    monkeypatch.setattr("trainstack.live.existing.read", read)


def make_ledger(kind: str) -> dict[str, Any]:
    """The ledger of a launch of this kind."""
    launch, labels = "a-0123456789-abcdef", {"trainstack.dev/run": "a-0123456789"}
    manifest = {"apiVersion": KINDS[kind].api_version, "kind": kind, "metadata": {"name": launch, "labels": labels}}
    run = {"run_id": "a-0123456789", "workload": "a", "namespace": "vision", "attempt": 1}
    return ledger_config_map("vision", Ledger(**run, launch_name=launch, launch=manifest))  # type: ignore[arg-type]


def test_a_kind_that_a_tenant_never_launched_may_be_out_of_its_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of which it has a ledger may not: whether that run still exists is not known. Nor may it for an owner."""
    forbidden = {"pytorchjobs": Answer(403, {})}
    make_answers(monkeypatch, {**forbidden, "configmaps": Answer(200, {"items": [make_ledger("Job")]})})
    assert read_launches(make_settings(), ["vision"]) == []
    with pytest.raises(ClusterError, match="set `profile: tenant`"):
        read_launches(make_settings(), [None])
    make_answers(monkeypatch, {**forbidden, "configmaps": Answer(200, {"items": [make_ledger("PyTorchJob")]})})
    refused = "403 to list pytorchjobs.kubeflow.org in namespace vision.*platform's owner.*: run-a-0123456789$"
    with pytest.raises(ClusterError, match=refused):
        read_launches(make_settings(), ["vision"])
    # In another namespace nothing was launched.
    assert read_launches(make_settings(), ["audio"]) == []


def test_what_is_there_is_read_whole_and_what_may_not_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims of other namespaces apart, operators by their images, another version of Kueue named."""
    claims = [{"metadata": {"name": name, "namespace": name}} for name in ("vision", "audio")]

    def deployment(image: str) -> dict[str, Any]:
        containers = [{"name": "manager", "image": image}]
        pods = {"template": {"spec": {"containers": containers}}}
        return {"metadata": {"namespace": "ops", "name": "controller"}, "spec": pods}

    images = ("registry.k8s.io/kueue/kueue:v0.14.0", "host:5000/other", "host:5000/training-operator@sha256:abc")
    make_answers(
        monkeypatch,
        {
            "vision": Answer(200, {}),
            "persistentvolumeclaims": Answer(200, {"items": claims}),
            "persistentvolumes": Answer(403, {}),
            "kueue.x-k8s.io": Answer(200, {"versions": [{"version": "v1beta1"}]}),
            "deployments": Answer(200, {"items": [deployment(image) for image in images]}),
        },
    )
    found = read_existing("vision", None, cluster_wide=True)
    assert found is not None
    assert [each["metadata"]["name"] for each in found.foreign_claims or ()] == ["audio"]
    assert [(each.name, each.version) for each in found.operators] == [
        ("Kueue", "v0.14.0"),
        ("the training operator", "of an unknown version"),
    ]
    assert found.unreadable == (
        "persistentvolumes may not be read (/api/v1/persistentvolumes), so none is taken over",
        "Kueue serves v1beta1 and not v1beta2, so no queue is taken over: upgrade Kueue to v0.15",
    )
    make_answers(monkeypatch, {"nowhere": Answer(404, {})})
    assert read_existing("nowhere", None, cluster_wide=True) is None


def test_claims_of_others_that_may_not_be_read_are_not_taken_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the namespace itself are there all the same."""
    own = {"items": [{"metadata": {"name": "data", "namespace": "vision"}}]}
    everywhere = "/api/v1/persistentvolumeclaims"
    kueue = Answer(404, {})
    answers = {everywhere: Answer(403, {}), "persistentvolumeclaims": Answer(200, own), "kueue.x-k8s.io": kueue}
    make_answers(monkeypatch, answers)
    found = read_existing("vision", None, cluster_wide=True)
    assert found is not None
    assert (len(found.claims), found.foreign_claims) == (1, None)
    assert found.unreadable == (f"persistentvolumeclaims may not be read ({everywhere}), so no class is taken over",)

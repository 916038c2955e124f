"""The rights that a tenant lacks, and those that it does not need."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.unit.make import make_settings
from trainstack.live import rights, snapshot
from trainstack.live.adoption import read_namespace_objects
from trainstack.live.client import Answer, ClusterError
from trainstack.live.rights import missing_right_errors, uncreatable_namespace_errors
from trainstack.live.snapshot import read_launches
from trainstack.runs.ledgers import Ledger, ledger_config_map
from trainstack.runs.status.launch_kinds import KINDS

TEAM = "system:serviceaccount:vision:vision"
JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a", "namespace": "vision"}}
CLAIM = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a", "namespace": "vision"}}
TORCH = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"generateName": "a-", "namespace": "vision"},
}


def make_server(monkeypatch: pytest.MonkeyPatch, *allowed: str, silent: bool = False) -> list[str]:
    """Patch the client with a server that allows these `<verb> <resource>`; return the list of the reviewed rights.

    If `silent`, the server answers no review.
    """
    reviews: list[str] = []

    async def connect(_: str | None) -> None:
        return None

    async def post(_: object, path: str, body: Mapping[str, Any]) -> Answer:
        if silent:
            return Answer(403, {})
        if path.endswith("selfsubjectreviews"):
            return Answer(201, {"status": {"userInfo": {"username": TEAM}}})
        attributes = body["spec"]["resourceAttributes"]
        verb, resource, name = (attributes[key] for key in ("verb", "resource", "name"))
        reviews.append(f"{verb} {resource}.{attributes['group']} {attributes['namespace']} {name}".strip())
        right = f"{verb} {resource} {name}".strip()
        return Answer(201, {"status": {"allowed": bool({right, right.rsplit(" ", 1)[0]} & {*allowed})}})

    monkeypatch.setattr(rights, "connect", connect)
    monkeypatch.setattr(rights, "post", post)
    return reviews


def test_each_missing_right_is_reported_with_who_can_grant_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A review is for a kind and namespace, and if denied for each object, except one with a generated name."""
    reviews = make_server(monkeypatch, "create persistentvolumeclaims", "patch persistentvolumeclaims", "create jobs")
    remedy = (
        "the platform's owner gives a team all rights that it needs (`trainstack:tenants` in the platform's "
        "environment)"
    )
    assert missing_right_errors([JOB, JOB, CLAIM, TORCH], None) == (
        f"{TEAM} may not create pytorchjobs.kubeflow.org in namespace vision; {remedy}",
        f"{TEAM} may not patch jobs.batch in namespace vision; {remedy}",
    )
    assert sorted(reviews) == [
        "create jobs.batch vision",
        "create persistentvolumeclaims. vision",
        "create pytorchjobs.kubeflow.org vision",
        "create pytorchjobs.kubeflow.org vision",
        "patch jobs.batch vision",
        "patch jobs.batch vision a",
        "patch persistentvolumeclaims. vision",
    ]


def test_a_missing_namespace_is_reported_with_who_can_create_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A namespace that the user may create is not reported."""
    reviews = make_server(monkeypatch, "create namespaces b")
    (message,) = uncreatable_namespace_errors(["b", "a"], "lab", None)
    assert message == (
        f"namespace a does not exist, and {TEAM} may not create it; ask an administrator of the cluster to create it "
        "with the roles of the environment: kubectl apply -f rights/lab.yaml"
    )
    assert sorted(reviews) == ["create namespaces.  a", "create namespaces.  b"]
    assert uncreatable_namespace_errors([], "lab", None) == ()


def test_a_right_on_the_object_alone_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A role may list resourceNames; a volume that it does not list is reported."""
    allowed = [f"{verb} persistentvolumeclaims a" for verb in ("create", "patch")]
    make_server(monkeypatch, *allowed)
    assert missing_right_errors([CLAIM], None) == ()
    (message,) = missing_right_errors([CLAIM, {**CLAIM, "metadata": {"name": "b", "namespace": "vision"}}], None)
    assert message.startswith(f"{TEAM} may not create or patch persistentvolumeclaims in namespace vision; ")


def test_a_server_without_access_reviews_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The change itself reports a missing right."""
    make_server(monkeypatch, silent=True)
    assert missing_right_errors([JOB], None) == ()


def make_answers(monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, Answer]) -> None:
    """Patch the reads with answers by path or its last part; other lists are empty."""

    def read(paths: Sequence[str], _: str | None, **__: bool) -> dict[str, Answer]:
        empty = Answer(200, {"items": []})
        plain = {path: path.partition("?")[0] for path in paths}
        return {path: answers.get(key, answers.get(key.rpartition("/")[2], empty)) for path, key in plain.items()}

    monkeypatch.setattr(snapshot, "read_lists", read)
    monkeypatch.setattr("trainstack.live.adoption.read", read)


def make_ledger(kind: str) -> dict[str, Any]:
    """Return the ledger of a launch of this kind."""
    launch = "a-0123456789-abcdef"
    labels = {"trainstack.dev/run": "a-0123456789", "trainstack.dev/launch": launch}
    metadata = {"name": launch, "namespace": "vision", "labels": labels}
    manifest = {"apiVersion": KINDS[kind].api_version, "kind": kind, "metadata": metadata}
    run = {"run_id": "a-0123456789", "workload": "a", "namespace": "vision", "attempt": 1}
    return ledger_config_map("vision", Ledger(**run, launch_name=launch, launch=manifest))  # type: ignore[arg-type]


def test_a_kind_that_a_tenant_never_launched_may_be_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind with a ledger may not be: whether that run still exists would be unknown. Nor may any for an owner."""
    forbidden = {"pytorchjobs": Answer(403, {})}
    make_answers(monkeypatch, {**forbidden, "configmaps": Answer(200, {"items": [make_ledger("Job")]})})
    assert read_launches(make_settings(), ["vision"]) == []
    with pytest.raises(ClusterError, match="set `profile: tenant`"):
        read_launches(make_settings(), [None])
    make_answers(monkeypatch, {**forbidden, "configmaps": Answer(200, {"items": [make_ledger("PyTorchJob")]})})
    message = "403 to list pytorchjobs.kubeflow.org in namespace vision.*platform's owner.*: run-a-0123456789$"
    with pytest.raises(ClusterError, match=message):
        read_launches(make_settings(), ["vision"])
    # Another namespace has no launches.
    assert read_launches(make_settings(), ["audio"]) == []


def test_existing_objects_are_read_and_unreadable_ones_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims of other namespaces are separate, images identify operators, and an old Kueue is reported."""
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
    found = read_namespace_objects("vision", None, cluster_wide=True)
    assert found is not None
    assert [claim["metadata"]["name"] for claim in found.foreign_claims or ()] == ["audio"]
    assert [(operator.name, operator.version) for operator in found.operators] == [
        ("Kueue", "v0.14.0"),
        ("the training operator", "of an unknown version"),
    ]
    assert found.read_failures == (
        "persistentvolumes may not be read (/api/v1/persistentvolumes), so none is taken over",
        "Kueue serves v1beta1 and not v1beta2, so no queue is taken over: upgrade Kueue to v0.15",
    )
    make_answers(monkeypatch, {"nowhere": Answer(404, {})})
    assert read_namespace_objects("nowhere", None, cluster_wide=True) is None


def test_unreadable_claims_of_other_namespaces_do_not_count_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The claims of the namespace itself are still read."""
    own = {"items": [{"metadata": {"name": "data", "namespace": "vision"}}]}
    everywhere = "/api/v1/persistentvolumeclaims"
    kueue = Answer(404, {})
    answers = {everywhere: Answer(403, {}), "persistentvolumeclaims": Answer(200, own), "kueue.x-k8s.io": kueue}
    make_answers(monkeypatch, answers)
    found = read_namespace_objects("vision", None, cluster_wide=True)
    assert found is not None
    assert (len(found.claims), found.foreign_claims) == (1, None)
    assert found.read_failures == (f"persistentvolumeclaims may not be read ({everywhere}), so no class is taken over",)

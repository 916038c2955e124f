"""A stack stays on the cluster on which it was created; the facts that identify a cluster are read if readable."""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.make import make_settings
from trainstack.guards.cluster_identity import CA, ClusterIdentity, other_cluster_refusal, unexpected_cluster_refusal
from trainstack.live import access
from trainstack.live import identity as reading
from trainstack.live.access import Access
from trainstack.live.client import Answer, RightsError
from trainstack.live.identity import read_cluster_identity
from trainstack.settings.errors import Place
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import Environment, Existing

OWNER = {"kube-system": "u1"}
TENANT = {"vision": "u2", CA: "c1"}


def make_cluster(**facts: str) -> ClusterIdentity:
    """Return a cluster with these facts, reached through the context `lab`."""
    return ClusterIdentity(facts, "lab", "https://lab:6443")


@pytest.mark.parametrize(
    ("stored", "live"),
    [
        pytest.param({}, OWNER, id="nothing is stored before the first up"),
        pytest.param(OWNER, OWNER, id="the same"),
        pytest.param(TENANT, {**TENANT, "text": "u3"}, id="a namespace more"),
        pytest.param(TENANT, {**TENANT, CA: "c2"}, id="the same namespace under a renewed CA"),
        pytest.param({CA: "c1"}, TENANT, id="a right more"),
        pytest.param(TENANT, {CA: "c1"}, id="a right less"),
        pytest.param({"text": "u3"}, TENANT, id="nothing to compare"),
    ],
)
def test_a_cluster_without_contrary_facts_is_accepted(stored: Mapping[str, str], live: Mapping[str, str]) -> None:
    """A UID in common decides; what cannot be compared proves nothing."""
    assert other_cluster_refusal(stored, make_cluster(**live), "dev") == ""


@pytest.mark.parametrize(
    ("stored", "live", "old", "new"),
    [
        (OWNER, {"kube-system": "u9"}, "UID of namespace kube-system: u1", "UID of namespace kube-system: u9"),
        (TENANT, {**TENANT, "vision": "u9"}, "UID of namespace vision: u2", "UID of namespace vision: u9"),
        (TENANT, {"text": "u3", CA: "c9"}, "sha256 of its CA: c1", "sha256 of its CA: c9"),
    ],
)
def test_another_cluster_is_refused_with_both_identities_and_remedies(
    stored: Mapping[str, str], live: Mapping[str, str], old: str, new: str
) -> None:
    """The message has the stored and the live identity, the context, and how to use either cluster."""
    value = new.rpartition(" ")[2]
    assert other_cluster_refusal(stored, make_cluster(**live), "dev") == (
        f"stack 'dev' was created on another cluster ({old}) than the one that the kubeconfig's context 'lab' "
        f"(https://lab:6443) leads to ({new}). Nothing was changed; use the kubeconfig or the context of the stack's "
        "own cluster (KUBECONFIG, `trainstack:cluster: context`). If the stack's own cluster no longer exists, move "
        f"the stack to this one: set `trainstack:cluster: {{identity: {value}}}` in Pulumi.dev.yaml, and run "
        "`trainstack up -s dev` (or `pulumi up --refresh`)"
    )


@pytest.mark.parametrize("expected", [None, "u2", "c1"])
def test_an_environment_may_identify_its_cluster_by_any_fact(expected: str | None) -> None:
    """The identity is optional."""
    assert unexpected_cluster_refusal(make_cluster(**TENANT), "dev", expected, None) == ""


def test_an_environment_that_names_another_cluster_is_refused_with_its_line() -> None:
    """The message also lists all facts of the reached cluster."""
    message = unexpected_cluster_refusal(make_cluster(**TENANT), "dev", "u7", Place("Pulumi.dev.yaml", 3))
    assert message.startswith(
        "Pulumi.dev.yaml:3: cluster.identity: stack 'dev' is for cluster u7, and the kubeconfig's context 'lab' "
        "(https://lab:6443) leads to another one (sha256 of its CA: c1, UID of namespace vision: u2). Nothing was "
    )


def make_api(monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, Answer], **entry: str) -> list[str]:
    """Patch the reads of namespaces and the kubeconfig's entry; return the list of the paths that will be read."""
    requests: list[str] = []
    fields = {"server": "https://lab:6443", **entry}
    cluster = access.KubeconfigCluster.model_validate(fields)
    lab = Access(context=None, name="lab", cluster=cluster, user=access.KubeconfigUser(), cluster_entry=fields)

    async def connect(_: str | None) -> Any:
        return SimpleNamespace(access=lab)

    async def get_all(_: object, paths: Iterable[str], *, metadata_only: bool) -> dict[str, Answer]:
        assert metadata_only
        requests.extend(paths)
        return {path: answers[path.rpartition("/")[2]] for path in paths}

    monkeypatch.setattr(reading, "connect", connect)
    monkeypatch.setattr(reading, "get_all", get_all)
    return requests


def make_namespace(uid: str, **annotations: str) -> Answer:
    """Return an answer with a namespace."""
    metadata = (
        {"annotations": {f"trainstack.dev/{key}": value for key, value in annotations.items()}} if annotations else {}
    )
    return Answer(200, {"metadata": {"uid": uid, **metadata}})


def make_tenant() -> Settings:
    """Return a tenant with two namespaces; the settings' volume is in `research`."""
    existing = Existing(namespaces=("vision",))
    return make_settings(environment=Environment(profile="tenant", layers=("training",), existing=existing))


def test_an_owner_identifies_a_cluster_by_its_system_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The local cluster has an annotation that survives a reset."""
    requests = make_api(monkeypatch, {"kube-system": make_namespace("u1")})
    assert read_cluster_identity(make_settings()) == make_cluster(**OWNER)
    assert requests == ["/api/v1/namespaces/kube-system"]
    make_api(monkeypatch, {"kube-system": make_namespace("u1", **{"local-cluster": "local-1"})})
    assert read_cluster_identity(make_settings()).facts == {"kube-system": "local-1"}


def test_an_owner_without_the_right_gets_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown identity is no basis for a change."""
    make_api(monkeypatch, {"kube-system": Answer(403, {})})
    with pytest.raises(RightsError, match="403 to get /api/v1/namespaces/kube-system"):
        read_cluster_identity(make_settings())


def test_a_tenant_identifies_a_cluster_by_its_namespaces_and_the_ca(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only readable namespaces count. The CA has the same digest in the kubeconfig and in a separate file."""
    answers = {"research": Answer(403, {}), "vision": make_namespace("u2")}
    digest = hashlib.sha256(b"PEM").hexdigest()
    data = {"certificate-authority-data": base64.b64encode(b"PEM\n").decode()}
    requests = make_api(monkeypatch, answers, **data)
    assert read_cluster_identity(make_tenant()).facts == {"vision": "u2", CA: digest}
    assert requests == ["/api/v1/namespaces/research", "/api/v1/namespaces/vision"]
    (tmp_path / "ca.crt").write_bytes(b"PEM")
    make_api(monkeypatch, answers, **{"certificate-authority": str(tmp_path / "ca.crt")})
    assert read_cluster_identity(make_tenant()).facts[CA] == digest
    make_api(monkeypatch, answers)
    assert read_cluster_identity(make_tenant()).facts == {"vision": "u2"}

"""The namespaces and kinds in which the runs of an environment are read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from tests.unit.live_objects import NOW, make_launch_body
from tests.unit.make import make_run, make_settings, make_storage
from tests.unit.runs.launches import make_launch
from tests.unit.runs.manifests.test_mpijob import make_mpijob
from tests.unit.runs.manifests.test_object import make_object
from trainstack.live import snapshot, teardown
from trainstack.live.client import Answer, ClusterError
from trainstack.live.snapshot import read_launches, read_runs, run_namespaces
from trainstack.objects.labels import LAUNCH, SWEEP
from trainstack.runs.errors import WorkloadError
from trainstack.runs.ledgers import Ledger, claim_config_map, ledger_config_map
from trainstack.runs.manifests.build import manifest
from trainstack.settings.sections.environment import Environment, Existing, Namespace


def test_an_owner_reads_all_namespaces_and_a_tenant_its_own() -> None:
    """A run may be active in a namespace that the files no longer have."""
    namespaces = (Namespace(name="research"),)
    run = make_run(namespace="team")
    assert run_namespaces(make_settings(run, environment=Environment(namespaces=namespaces))) == (None,)
    tenant = Environment(profile="tenant", namespaces=namespaces)
    assert "team" in run_namespaces(make_settings(run, environment=tenant))
    assert None not in run_namespaces(make_settings(run, environment=tenant))


def test_a_tenant_without_runs_reads_its_existing_namespaces() -> None:
    """A run that it declared before may be active: only `existing` still names its namespace."""
    tenant = Environment(profile="tenant", existing=Existing(namespaces=("team",)))
    assert run_namespaces(make_settings(environment=tenant, storage=make_storage(volumes=()))) == ("team",)


def test_a_terminating_launch_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes to a terminating object succeed, but are lost with it."""
    bodies = [make_launch_body(), make_launch_body()]
    bodies[1]["metadata"] |= {"name": "terminating", "uid": "terminating", "deletionTimestamp": "2026-01-01T00:00:00Z"}

    def read(paths: Sequence[str], _: object, **__: object) -> dict[str, Answer]:
        return {path: Answer(200, {"items": bodies if "/jobs?" in path else []}) for path in paths}

    monkeypatch.setattr(snapshot, "read_lists", read)
    assert [launch.name for launch in read_runs(make_settings()).live] == [bodies[0]["metadata"]["name"]]


def make_served(monkeypatch: pytest.MonkeyPatch, lists: Mapping[str, Sequence[Any]]) -> list[str]:
    """Patch the reads with these objects by plural; return the paths of the requested lists."""
    requests: list[str] = []

    def read(paths: Sequence[str], _: object, **__: object) -> dict[str, Answer]:
        requests.extend(path.partition("?")[0] for path in paths)
        found = {path: lists.get(path.partition("?")[0].rpartition("/")[2], ()) for path in paths}
        return {path: Answer(200, {"items": [*items]}) for path, items in found.items()}

    for name in ("read", "read_lists"):
        monkeypatch.setattr(snapshot, name, read)
    return requests


def test_a_rare_kind_is_read_if_a_ledger_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files may no longer have the run. Other environments need no right to list the kind."""
    launch = manifest(make_mpijob(), "dev", make_launch())
    live = {**launch, "metadata": {**launch["metadata"], "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    ledger = Ledger(
        run_id="train-1", workload="train", namespace="research", attempt=1, launch_name="train-1-2", launch=launch
    )
    recorded = ledger_config_map("dev", ledger)
    assert recorded["metadata"]["labels"]["trainstack.dev/kind"] == "MPIJob"

    requests = make_served(monkeypatch, {"configmaps": [recorded], "mpijobs": [live]})
    assert [body["kind"] for body in read_launches(make_settings(), (None,))] == ["MPIJob"]
    assert "/apis/kubeflow.org/v2beta1/mpijobs" in requests
    assert [launch.kind for launch in read_runs(make_settings()).live] == ["MPIJob"]

    other = ledger_config_map(
        "dev",
        Ledger(
            run_id="train-1",
            workload="train",
            namespace="research",
            attempt=1,
            launch_name="train-1-2",
            launch=manifest(make_run(), "dev", make_launch()),
        ),
    )
    assert "trainstack.dev/kind" not in other["metadata"]["labels"]
    requests = make_served(monkeypatch, {"configmaps": [other]})
    assert read_launches(make_settings(), (None,)) == []
    assert not [path for path in requests if "mpijobs" in path]


def test_a_terminating_launch_is_found_without_its_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """A teardown deletes the ledger first, and waits for the launch before it deletes the queue."""
    launch = manifest(make_mpijob(), "dev", make_launch())
    ending = {"uid": "1", "creationTimestamp": NOW, "deletionTimestamp": NOW}
    make_served(monkeypatch, {"mpijobs": [{**launch, "metadata": {**launch["metadata"], **ending}}]})
    assert [body["kind"] for body in read_launches(make_settings(make_mpijob()), (None,))] == ["MPIJob"]


def test_launches_of_a_kind_in_two_versions_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each list has the objects of both versions; a second active launch of a run would stop every change."""
    by_version = {}
    for version, name in (("kubeflow.org/v1", "a"), ("kubeflow.org/v2", "b")):
        launch = manifest(make_object({"api_version": version}), "dev", replace(make_launch(), name=name))
        by_version[version] = Ledger(
            run_id=f"run-{name}", workload="train", namespace="research", attempt=1, launch_name=name, launch=launch
        )
    live = [
        {
            **ledger.launch,
            "metadata": {**ledger.launch["metadata"], "uid": ledger.launch_name, "creationTimestamp": NOW},
        }
        for ledger in by_version.values()
    ]
    ledgers = [ledger_config_map("dev", ledger) for ledger in by_version.values()]
    requests = make_served(monkeypatch, {"configmaps": ledgers, "jaxjobs": live})
    assert len(read_launches(make_settings(), (None,))) == len(live)
    assert [path for path in requests if path.endswith("jaxjobs")] == [
        "/apis/kubeflow.org/v1/jaxjobs",
        "/apis/kubeflow.org/v2/jaxjobs",
    ]


@pytest.mark.parametrize(
    ("resource", "problem"),
    [
        ({"name": "jaxes", "namespaced": True}, "as jaxes, and Trainstack finds .* the usual plural, jaxjobs"),
        ({"name": "jaxjobs", "namespaced": False}, "as jaxjobs, which is not in a namespace, and"),
        ({"name": "jaxjobs", "namespaced": True}, ""),
        ({"name": "jaxjobs/status", "namespaced": True}, ""),
    ],
)
def test_a_kind_with_an_unusual_path_stops_every_change(
    monkeypatch: pytest.MonkeyPatch, resource: dict[str, Any], problem: str
) -> None:
    """Its active launches would not be found, and would count as ended."""

    def read(paths: Sequence[str], _: object, **__: object) -> dict[str, Answer]:
        kinds = [{"kind": "JAXJob", **resource}, {"kind": "PyTorchJob", "name": "torches", "namespaced": True}]
        return {path: Answer(200, {"items": [], "resources": kinds}) for path in paths}

    for name in ("read", "read_lists"):
        monkeypatch.setattr(snapshot, name, read)
    if not problem:
        assert read_launches(make_settings(make_object()), (None,)) == []
        return
    with pytest.raises(ClusterError, match=f"the cluster serves JAXJob of kubeflow.org/v1 {problem}"):
        read_launches(make_settings(make_object()), (None,))


def make_claim(launch_name: str = "train-1-2") -> dict[str, Any]:
    """Return the claim that an interrupted `up` left at NOW, by the API server's clock."""
    launch = manifest(make_run(), "dev", replace(make_launch(), name=launch_name))
    ledger = Ledger(
        run_id="train-1", workload="train", namespace="research", attempt=1, launch_name=launch_name, launch=launch
    )
    claim = claim_config_map(ledger_config_map("dev", ledger), "c1")
    fields: dict[str, Any] = {"f:metadata": {"f:annotations": {"f:trainstack.dev/claim": {}}}}
    managed = [{"manager": "trainstack", "operation": "Update", "time": CLAIMED, "fieldsV1": fields}]
    return {**claim, "metadata": {**claim["metadata"], "managedFields": managed}}


CLAIMED = "2026-01-02T03:04:05Z"


def test_the_age_of_a_claim_is_by_the_clock_of_the_api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the claim itself, and of the answer. The user's clock may be wrong."""
    answered = datetime.fromisoformat(CLAIMED) + timedelta(minutes=7)
    monkeypatch.setattr(snapshot, "read_server_time", lambda _: answered)
    make_served(monkeypatch, {"configmaps": [make_claim()]})
    monkeypatch.setattr(snapshot, "read", lambda paths, _: {path: Answer(404, {}) for path in paths})
    (claim,) = read_runs(make_settings()).claims
    assert (claim.ledger.launch_name, claim.age) == ("train-1-2", timedelta(minutes=7))


def test_the_time_is_not_read_without_an_open_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more request of each `up` would be slow. The claim of a launch that exists is not open."""

    def unexpected(_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(snapshot, "read_server_time", unexpected)
    live = manifest(make_run(), "dev", make_launch())
    live["metadata"] |= {"uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    make_served(monkeypatch, {"configmaps": [make_claim()], "jobs": [live]})
    runs = read_runs(make_settings())
    assert (runs.claims, [ledger.launch_name for ledger in runs.ledgers]) == ((), ["train-1-2"])


@pytest.mark.parametrize(
    "text", ["{", "[]", "5", '{"trials": 5}', '{"trials": [{}]}', '{"trials": [["a"]]}', "[" * 9999]
)
def test_a_parameter_file_that_was_edited_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """The trials of its launch are unknown."""
    file = {
        "metadata": {"name": "sweep-a-1", "namespace": "lab", "labels": {SWEEP: "a"}},
        "data": {"trials.json": text},
    }

    def read(paths: Sequence[str], _: object, **__: object) -> dict[str, Answer]:
        return {path: Answer(200, {"items": [file] if quote(f"{SWEEP},!") in path else []}) for path in paths}

    monkeypatch.setattr(snapshot, "read_lists", read)
    with pytest.raises(WorkloadError, match=r"^ConfigMap lab/sweep-a-1: trials\.json .* cannot be read .* Restore it$"):
        read_runs(make_settings())


def test_the_ledgers_record_the_names_of_deleted_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read only if a pod has the label of a launch that was not found."""
    launch = manifest(make_mpijob(), "dev", make_launch())
    ledger = Ledger(
        run_id="train-1", workload="train", namespace="research", attempt=1, launch_name="train-1-2", launch=launch
    )
    requests = make_served(monkeypatch, {"configmaps": [ledger_config_map("dev", ledger)]})
    pods = [{"kind": "Pod", "metadata": {"name": "p", "namespace": "research", "labels": {LAUNCH: "train-1-2"}}}]
    pod_lists = {"Pod": tuple(pods)}
    monkeypatch.setattr(teardown, "read_kinds", lambda *_: pod_lists)
    monkeypatch.setattr(teardown, "_read_contents", _nothing)
    deleted = {("ConfigMap", "research", "wrapper")}
    assert teardown.read_users(make_settings(), deleted).recorded_launches == {"train-1-2"}
    pod_lists.clear()
    requests.clear()
    assert teardown.read_users(make_settings(), deleted).recorded_launches == frozenset()
    # Only ledgers that name a rare kind.
    assert [path for path in requests if path.endswith("/configmaps")] == ["/api/v1/configmaps"]


async def _nothing(*_: object) -> tuple[tuple[()], dict[str, tuple[()]]]:
    return (), {}

"""Two checkouts with states of their own and a stack of one name: the real engine on an API server alone."""

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tests.apiserver import ApiServer, Body, api_server
from tests.cluster.project import CommandResult, Project
from tests.stateful.checkout import make_run
from trainstack.errors import ExitCode
from trainstack.objects.labels import FIELD_MANAGER, STATE, field_manager, is_field_manager

RUN_NAMESPACE = "team"
"""The namespace of the run: it is there before."""
KINDS = {
    "Namespace": "/api/v1/namespaces",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "PersistentVolumeClaim": "/api/v1/persistentvolumeclaims",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/networkpolicies",
    "Job": "/apis/batch/v1/jobs",
    "ConfigMap": "/api/v1/configmaps",
}
MERGE = "application/merge-patch+json"
TAKE_OVER = "trainstack:cluster: {takeOver: ["


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server with the namespace of the run."""
    with api_server(tmp_path_factory.mktemp("states")) as running:
        running.make_namespace(RUN_NAMESPACE)
        yield running


@pytest.fixture(scope="module")
def checkouts(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Project]:
    """Two copies of the project, each with a state of its own."""
    first, second = (Project.copy(tmp_path_factory.mktemp(name), server) for name in ("first", "second"))
    return first, second


def make_config(stack: str, **cluster: Any) -> dict[str, Any]:
    """A namespace, a class, a volume and a run that stays active."""
    volume = {"name": "data", "namespace": stack, "size": "1Gi", "accessModes": ["ReadWriteOnce"]}
    return {
        "trainstack:environment": {"namespaces": [{"name": stack}], "existing": {"namespaces": [RUN_NAMESPACE]}},
        "trainstack:storage": {
            "classes": [{"name": stack, "provisioner": "rancher.io/local-path"}],
            "volumes": [{**volume, "storageClass": stack}],
        },
        "trainstack:queues": {"priorityClasses": None},
        "trainstack:workloads": {"runs": [make_run(stack, RUN_NAMESPACE)]},
        "trainstack:cluster": cluster,
    }


def objects(server: ApiServer, stack: str) -> dict[tuple[str, str], Body]:
    """The metadata of everything with the mark of a stack, by kind and name."""
    found: dict[tuple[str, str], Body] = {}
    for kind, path in KINDS.items():
        answer = server.send("GET", path, labelSelector=f"trainstack.dev/stack={stack}").checked()
        found |= {(kind, str(body["metadata"]["name"])): body["metadata"] for body in answer["items"]}
    return found


def states(server: ApiServer, stack: str) -> set[str | None]:
    """The identities on all objects of a stack."""
    return {metadata.get("annotations", {}).get(STATE) for metadata in objects(server, stack).values()}


def managers(server: ApiServer, stack: str) -> set[str]:
    """The field managers of our states on the objects of a stack that can be edited."""
    live = (metadata for (kind, _), metadata in objects(server, stack).items() if kind != "Job")
    names = (entry["manager"] for metadata in live for entry in metadata["managedFields"])
    return {name for name in names if is_field_manager(name)}


def path_of(kind: str, metadata: Mapping[str, Any]) -> str:
    """The path of an object."""
    root, _, plural = KINDS[kind].rpartition("/")
    within = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{root}{within}/{plural}/{metadata['name']}"


def assert_succeeded(done: CommandResult) -> str:
    """Check that a command succeeded, and return its output in one line."""
    assert done.code == 0, done.text
    return " ".join(done.text.split())


def assert_refused(done: CommandResult, *identities: str) -> None:
    """Check that the command fails, and that its message has the states and the remedy."""
    text = " ".join(done.text.split())
    assert done.code != 0, text
    for expected in (
        "belong to another state of that stack",
        "Nothing was changed",
        "pulumi stack import",
        *identities,
    ):
        assert expected in text, text
    assert "Traceback" not in text


@contextmanager
def garbage_collector(server: ApiServer) -> Iterator[None]:
    """Stand in for the garbage collector, which completes foreground deletions."""
    ended = threading.Event()

    def collect() -> None:
        while not ended.wait(0.1):
            for kind, path in KINDS.items():
                for body in server.send("GET", path).checked()["items"]:
                    if "foregroundDeletion" in body["metadata"].get("finalizers", ()):
                        server.send("PATCH", path_of(kind, body["metadata"]), {"metadata": {"finalizers": None}}, MERGE)

    thread = threading.Thread(target=collect)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_second_checkout_changes_nothing(server: ApiServer, checkouts: tuple[Project, Project]) -> None:
    """Its commands are refused, previews too; with the state of the first checkout they change nothing."""
    first, second = (checkout.other_stack("shared", make_config("shared")) for checkout in checkouts)
    assert_succeeded(first.up())
    (identity,) = states(server, "shared")
    assert identity is not None
    assert {"Job", "ConfigMap", *KINDS} == {kind for kind, _ in objects(server, "shared")}
    assert_succeeded(first.up("--refresh", "--expect-no-changes"))
    assert_succeeded(first.pulumi("refresh", "--yes", "--skip-preview", "--expect-no-changes"))
    before = server.offset()
    for done in (second.pulumi("preview"), second.up(), second.trainstack("up", "--yes", "--no-wait")):
        assert_refused(done, f"state {identity} owns ", f"{TAKE_OVER}{identity}]}}")
    doctor = second.trainstack("doctor").text
    assert "object-of-another-state" in doctor
    assert "kubectl delete" not in doctor
    for words in (("destroy",), ("destroy", "--keep-platform")):
        # The first checkout's run is active.
        assert second.trainstack(*words, "--yes").code == ExitCode.REFUSED
    assert [event for event in server.events(before) if event.is_write] == []
    exported = first.root / "state.json"
    assert_succeeded(first.pulumi("stack", "export", "--file", str(exported)))
    assert_succeeded(second.pulumi("stack", "import", "--file", str(exported)))
    assert_succeeded(second.up("--refresh", "--expect-no-changes"))
    assert states(server, "shared") == {identity}


def test_two_concurrent_first_ups_write_only_objects_that_they_created(
    server: ApiServer, checkouts: tuple[Project, Project]
) -> None:
    """Both find an empty cluster; the API server refuses the second writer of an object."""
    several = [checkout.other_stack("racing", make_config("racing")) for checkout in checkouts]
    with ThreadPoolExecutor() as pool:
        done = [*pool.map(Project.up, several)]
    assert any(result.code != 0 for result in done), [result.text for result in done]
    live = objects(server, "racing")
    assert live
    for metadata in live.values():
        of_states = {entry["manager"] for entry in metadata["managedFields"] if is_field_manager(entry["manager"])}
        assert of_states == {field_manager(metadata["annotations"][STATE])}
    for project, before in zip(several, done, strict=True):
        again = project.up()
        assert (again.code == 0) == (before.code == 0), again.text
        if before.code != 0:
            assert_refused(again)


def test_a_state_takes_over_another_ones_objects(server: ApiServer, checkouts: tuple[Project, Project]) -> None:
    """The printed setting does this. All objects are kept, the active run too; then the first state is refused."""
    labelled = make_config("taken")
    labelled["trainstack:environment"]["namespaces"][0]["labels"] = {"example.org/team": "vision"}
    first, second = (checkout.other_stack("taken", labelled) for checkout in checkouts)
    assert_succeeded(first.up())
    (old,) = states(server, "taken")
    assert old is not None
    uids = {key: metadata["uid"] for key, metadata in objects(server, "taken").items()}
    second.write_stack("taken", {**labelled, "trainstack:cluster": {"takeOver": [old]}})
    assert f"taken over from state {old}" in assert_succeeded(second.up())
    (new,) = states(server, "taken")
    assert new not in (old, None)
    assert {key: metadata["uid"] for key, metadata in objects(server, "taken").items()} == uids
    assert "remove the entry" in assert_succeeded(second.up("--expect-no-changes"))
    assert managers(server, "taken") == {field_manager(new)}
    # The fields are this state's own: what it no longer declares goes.
    assert "example.org/team" in objects(server, "taken")["Namespace", "taken"]["labels"]
    second.write_stack("taken", make_config("taken"))
    assert_succeeded(second.up("--refresh"))
    assert "example.org/team" not in objects(server, "taken")["Namespace", "taken"]["labels"]
    assert_succeeded(second.up("--refresh", "--expect-no-changes"))
    before = server.offset()
    for done in (
        first.up(),
        first.trainstack("destroy", "--keep-platform", "--yes"),
        first.trainstack("destroy", "--yes"),
    ):
        assert_refused(done, f"state {new} owns ")
    # Objects that this environment no longer declares would be deleted.
    bare = make_config("taken")
    bare["trainstack:workloads"], bare["trainstack:storage"] = {}, {}
    first.write_stack("taken", bare)
    assert_refused(first.up(), f"state {new} owns ")
    assert [event for event in server.events(before) if event.is_write] == []


@pytest.mark.slow
def test_objects_of_an_earlier_release_get_the_identity(server: ApiServer, checkouts: tuple[Project, Project]) -> None:
    """The state that has them adds it; any other state is refused. All states had one field manager in that release."""
    first, second = (checkout.other_stack("earlier", make_config("earlier")) for checkout in checkouts)
    assert_succeeded(first.up())
    (own,) = states(server, "earlier")
    for (kind, _), metadata in objects(server, "earlier").items():
        fields = [{**entry, "manager": "trainstack"} for entry in metadata["managedFields"]]
        bare = {"annotations": {STATE: None, FIELD_MANAGER: "trainstack"}, "managedFields": fields}
        path = path_of(kind, metadata)
        server.send("PATCH", path, {"metadata": bare}, MERGE, fieldManager="trainstack").checked()
    assert managers(server, "earlier") == {"trainstack"}
    assert_refused(second.up(), "a state without an identity (none) owns ", f"{TAKE_OVER}none]}}")
    assert states(server, "earlier") == {None}
    assert_succeeded(first.pulumi("preview", "--refresh"))
    assert_succeeded(first.up("--refresh"))
    assert managers(server, "earlier") == {field_manager(str(own))}
    # A live launch is never edited.
    without = {kind for (kind, _), live in objects(server, "earlier").items() if STATE not in live["annotations"]}
    assert without == {"Job"}
    assert states(server, "earlier") == {None, own}
    assert_succeeded(first.up("--refresh", "--expect-no-changes"))


@pytest.mark.slow
def test_objects_that_destroy_retained_are_adopted(server: ApiServer, checkouts: tuple[Project, Project]) -> None:
    """A destroy removes the identity from the state; the next `up` adopts the retained objects."""
    config = make_config("again")
    del config["trainstack:workloads"]
    project = checkouts[0].other_stack("again", config)
    assert_succeeded(project.up())
    (old,) = states(server, "again")
    uid = objects(server, "again")["PersistentVolumeClaim", "data"]["uid"]
    with garbage_collector(server):
        assert_succeeded(project.pulumi("destroy", "--yes", "--skip-preview", "--run-program"))
    assert set(objects(server, "again")) == {("Namespace", "again"), ("PersistentVolumeClaim", "data")}
    assert f"left by an earlier `destroy` of state {old}" in assert_succeeded(project.up())
    (new,) = states(server, "again")
    assert new not in (old, None)
    assert objects(server, "again")["PersistentVolumeClaim", "data"]["uid"] == uid
    assert_succeeded(project.up("--refresh", "--expect-no-changes"))

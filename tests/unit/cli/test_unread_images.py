"""Images by name, as their registries serve them to a node without credentials."""

import socket
from functools import partial
from pathlib import Path

import httpx
import pytest

from trainstack.cli import unserved_images as module
from trainstack.cli.session import Session
from trainstack.cli.unserved_images import images_of_runs
from trainstack.live.registry import Registries
from trainstack.preflight.live_context import ImageUser, UnreadImage

ENVIRONMENT = """\
config:
  trainstack:environment: {namespaces: [{name: lab}]}
  trainstack:cluster: {loader: {image: "loader.example.org/busybox:1"}}
  trainstack:storage:
    classes: [{name: nfs, provisioner: nfs.csi.k8s.io}]
    volumes: [{name: data, namespace: lab, storageClass: nfs, size: 1Gi, accessModes: [ReadWriteMany]}]
  trainstack:workloads:
    runs:
      - {name: served, kind: Job, namespace: lab, managed: false, image: {name: "r.example.org/served:1"}}
      - {name: missing, kind: Job, namespace: lab, managed: false, image: {name: "r.example.org/missing:1"}}
      - name: private
        kind: Job
        namespace: lab
        managed: false
        image: {name: "r.example.org/private:1"}
        imagePullSecrets: [registry]
      - {name: away, kind: Job, namespace: lab, managed: false, image: {name: "r.local/away:1"}}
      - {name: slow, kind: Job, namespace: lab, managed: false, image: {name: "slow.example.org/slow:1"}}
      - {name: here, kind: Job, namespace: lab, managed: false, imagePullPolicy: Never, image: {name: "r.local/here:1"}}
"""


def answer(request: httpx.Request) -> httpx.Response:
    if request.url.host == "r.local":
        raise httpx.ConnectError("Name or service not known") from socket.gaierror(-2, "Name or service not known")
    if request.url.host == "slow.example.org":
        raise httpx.ConnectTimeout("timed out")
    if request.url.host == "offline.example.org":
        raise httpx.ConnectError("Temporary failure") from socket.gaierror(socket.EAI_AGAIN, "Temporary failure")
    name = request.url.path.split("/")[2]
    status = {"missing": 404, "private": 401}.get(name, 200)
    if request.method == "GET" and status == 200:
        is_config = "/blobs/" in request.url.path
        body = {"config": {"User": "app"}} if is_config else {"config": {"digest": "sha256:c"}, "layers": []}
        return httpx.Response(200, json=body)
    return httpx.Response(status, headers={"Docker-Content-Digest": f"sha256:{'a' * 64}"})


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    (tmp_path / "Pulumi.test.yaml").write_text(ENVIRONMENT, encoding="utf-8")
    monkeypatch.setattr(module, "Registries", partial(Registries, transport=httpx.MockTransport(answer)))
    return Session(tmp_path, "test")


def unread(session: Session) -> tuple[UnreadImage, ...]:
    """Return the images that a node cannot read, on a cluster other than the local one."""
    return module.unread_images(session, images_of_runs(session), None)


def test_each_problem_is_distinguished(session: Session) -> None:
    """A served image has no problem; an image that nodes never pull is not requested."""
    problems = {(image.path, image.problem, image.has_pull_secret) for image in unread(session)}
    assert problems == {
        ("workloads.runs[missing].image.name", "missing", False),
        ("workloads.runs[private].image.name", "denied", True),
        ("workloads.runs[away].image.name", "unreachable", False),
        ("workloads.runs[slow].image.name", "unknown", False),
    }


def test_the_users_of_images_are_read_where_the_pods_have_them(session: Session) -> None:
    """Not of an image that another user runs, that is built here, or that its registry does not serve."""
    file = session.root / "Pulumi.test.yaml"
    served = '- {name: served, kind: Job, namespace: lab, managed: false, image: {name: "r.example.org/served:1"}}'
    others = [
        served.replace("name: served", f"name: {name}").replace("served:1", f"{name}:1").replace("}}", f"}}, {field}}}")
        for name, field in (("other", "runAsUser: 7"), ("baseline", "security: baseline"))
    ]
    file.write_text(file.read_text().replace(served, "\n      ".join([served, *others])))
    users = module.read_image_users(Session(session.root, "test"), images_of_runs(Session(session.root, "test")), None)
    assert users == (ImageUser("workloads.runs[served].image.name", "r.example.org/served:1", "app"),)


def test_the_message_names_the_host(session: Session) -> None:
    (away,) = (image for image in unread(session) if image.problem == "unreachable")
    assert away == UnreadImage(
        "workloads.runs[away].image.name",
        "r.local/away:1",
        "unreachable",
        "host r.local has no address (Name or service not known)",
    )


def test_an_image_that_is_built_here_is_left_to_its_own_rule(session: Session) -> None:
    dockerfile = session.root / "workloads" / "missing" / "Dockerfile"
    dockerfile.parent.mkdir(parents=True)
    dockerfile.write_text("FROM scratch\n", encoding="utf-8")
    assert "r.example.org/missing:1" not in {image.reference for image in unread(session)}


def test_without_a_name_server_nothing_is_known(session: Session) -> None:
    """The host may have an address: the machine is offline."""
    file = session.root / "Pulumi.test.yaml"
    file.write_text(file.read_text().replace("r.local/away:1", "offline.example.org/away:1"))
    problems = {image.path: image.problem for image in unread(session)}
    assert problems["workloads.runs[away].image.name"] == "unknown"

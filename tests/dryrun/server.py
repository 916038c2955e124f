"""An API server for dry runs of objects: etcd, kube-apiserver and the operators' definitions."""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.apiserver import ApiServer, Response, api_server
from tests.definitions import FILES, definition
from tests.unit.preflight.cases import ROOT
from trainstack.live.paths import collection_path
from trainstack.platform.operators.release import read_release
from trainstack.runs.manifests.launched_pods import launched_pods

Manifest = dict[str, Any]
NAMESPACE = "research"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_KINDS = {
    *("AdmissionCheck", "ClusterQueue", "Cohort", "LocalQueue", "MultiKueueCluster", "MultiKueueConfig"),
    *("ProvisioningRequestConfig", "ResourceFlavor", "Topology", "WorkloadPriorityClass"),
    *("PyTorchJob", "JobSet", "TrainJob", "TrainingRuntime", "JAXJob", *FILES),
}
"""The custom kinds that a stack declares."""
_INVALID = (400, 422)
"""The status codes for an object that is invalid regardless of other objects."""
_APPLY = "application/apply-patch+yaml"
"""The content type of a server-side apply, with which the engine's provider sends objects."""
_IN_URLS = re.compile(r"[A-Za-z0-9][-.A-Za-z0-9]*")
"""Names that need no escaping in a path; objects with other names or without one are posted."""
_QUERY = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "trainstack"}
_SECONDS = 60
"""The timeout in seconds until the API server serves the kinds."""


class Server:
    """The API server, and the objects that it has already accepted."""

    def __init__(self, server: ApiServer) -> None:
        self.dry_run_count = 0
        """The number of dry runs."""
        self._server = server
        self._taken: set[str] = set()

    def refusals(self, manifests: Sequence[Manifest]) -> list[str]:
        """Return the reasons why objects, or the pods that their controllers would create, are refused."""
        found = []
        for body in manifests:
            companions = [manifest for manifest in manifests if manifest["kind"] == "TrainingRuntime"]
            pods = [_pod(pod.template) for pod in launched_pods(body, companions)] if body["kind"] != "Pod" else []
            found += [fault for manifest in (body, *pods) if (fault := self.refusal(manifest))]
        return found

    def refusal(self, body: Manifest) -> str:
        """Return why an object is refused; empty if it is accepted or only lacks an object that it references."""
        key = json.dumps(body, sort_keys=True)
        if key in self._taken:
            return ""
        answer = self.apply(body) if _IN_URLS.fullmatch(body["metadata"].get("name", "")) else self.create(body)
        if answer.code in _INVALID or answer.code >= 500:
            return f"{body['kind']}: {answer.code}: {answer.body.get('message')}"
        self._taken.add(key)
        return ""

    def create(self, body: Manifest) -> Response:
        """Create an object in a dry run, as kubectl does."""
        self.dry_run_count += 1
        return self._server.send("POST", _path(body), _complete(body), **_QUERY)

    def apply(self, body: Manifest) -> Response:
        """Apply an object with a name in a dry run, as the engine does."""
        self.dry_run_count += 1
        path = f"{_path(body)}/{body['metadata']['name']}"
        return self._server.send("PATCH", path, _complete(body), _APPLY, **_QUERY, force="true")


def _path(body: Manifest) -> str:
    return collection_path(body["apiVersion"], body["kind"], body["metadata"].get("namespace"))


def _pod(template: Mapping[str, Any]) -> Manifest:
    """Return the pod that a controller would create from a template; the controllers of Jobs choose its name."""
    metadata = {**template.get("metadata", {}), "name": "pod", "namespace": NAMESPACE}
    spec = {**template["spec"], "restartPolicy": template["spec"].get("restartPolicy", "Never")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _complete(body: Manifest) -> Manifest:
    """Return a Secret with data, which the engine would add, and other objects unchanged."""
    if body["kind"] != "Secret":
        return body
    return {**body, "data": {".dockerconfigjson": "e30=", "ssh-privatekey": "eA==", "username": "eA=="}}


@contextmanager
def dry_run_server(folder: Path, definitions: Sequence[Manifest] | None = None) -> Iterator[Server]:
    """Run an API server with the namespace of the generated objects and the definitions of the operators' kinds.

    `definitions`: by default, those of all operators in the declared versions.
    """
    if definitions is None:
        definitions = list(_declared_definitions())
        assert {body["spec"]["names"]["kind"] for body in definitions} == _KINDS
    with api_server(folder) as server:
        server.make_namespace(NAMESPACE)
        for body in definitions:
            server.send("POST", _DEFINITIONS, body).checked()
        _wait_for_definitions(server, len(definitions))
        yield Server(server)


def _declared_definitions() -> Iterator[Manifest]:
    """Yield the operators' definitions in the declared version, without webhooks, which have no server here."""
    yield from map(definition, FILES)
    releases = yaml.safe_load((ROOT / "defaults.yaml").read_text(encoding="utf-8"))["operators"]
    for release in (operator["manifest"] for operator in releases.values()):
        for body in read_release(ROOT / release["path"], release["sha256"], ROOT / ".trainstack/cache"):
            # The training operator has an older MPIJob.
            if body["kind"] == "CustomResourceDefinition" and body["spec"]["names"]["kind"] in _KINDS - {*FILES}:
                spec = {key: value for key, value in body["spec"].items() if key != "conversion"}
                spec["versions"] = [{**body["spec"]["versions"][-1], "storage": True}]
                yield {**body, "metadata": {"name": body["metadata"]["name"]}, "spec": spec}


def _wait_for_definitions(server: ApiServer, count: int) -> None:
    """Wait until every kind is served, shortly after its definition is created. `count`: of definitions."""
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        conditions = [
            found["status"].get("conditions") or () for found in server.send("GET", _DEFINITIONS).checked()["items"]
        ]
        if len(conditions) == count and all(
            any(condition["type"] == "Established" and condition["status"] == "True" for condition in listed)
            for listed in conditions
        ):
            return
        time.sleep(0.1)
    raise AssertionError("the API server does not serve the operators' kinds")

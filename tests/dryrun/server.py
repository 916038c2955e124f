"""An API server that is asked whether it would take objects: etcd, kube-apiserver and the operators' definitions."""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.apiserver import ApiServer, api_server
from tests.definitions import FILES, definition
from tests.unit.checks.cases import ROOT
from trainstack.live.paths import collection
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
"""The kinds that a stack declares beside Kubernetes' own."""
_INVALID = (400, 422)
"""What the API server answers to an object that it would refuse whatever else it held."""
_APPLY = "application/apply-patch+yaml"
"""As the engine's provider sends objects: a server-side apply."""
_IN_URLS = re.compile(r"[A-Za-z0-9][-.A-Za-z0-9]*")
"""Names that are a part of a path as they are; an object of any other name, or of none yet, is posted."""
_SECONDS = 60
"""How long the API server may take until it serves the kinds."""


class Server:
    """The API server, and what it has taken already."""

    def __init__(self, server: ApiServer) -> None:
        self.asked = 0
        """Dry runs that were sent."""
        self._server = server
        self._taken: set[str] = set()

    def refusals(self, manifests: Sequence[Manifest]) -> list[str]:
        """Why objects, and the pods that their controllers would create, are refused; empty where none is."""
        found = []
        for body in manifests:
            companions = [each for each in manifests if each["kind"] == "TrainingRuntime"]
            pods = [_pod(each.template) for each in launched_pods(body, companions)] if body["kind"] != "Pod" else []
            found += [fault for each in (body, *pods) if (fault := self.refusal(each))]
        return found

    def refusal(self, body: Manifest) -> str:
        """Why an object is refused; empty where it is taken, or where only something that it names is missing."""
        key = json.dumps(body, sort_keys=True)
        if key in self._taken:
            return ""
        self.asked += 1
        path = collection(body["apiVersion"], body["kind"], body["metadata"].get("namespace"))
        query = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "trainstack"}
        name = body["metadata"].get("name", "")
        if _IN_URLS.fullmatch(name):
            answer = self._server.send("PATCH", f"{path}/{name}", _complete(body), _APPLY, **query, force="true")
        else:
            answer = self._server.send("POST", path, _complete(body), **query)
        if answer.code in _INVALID or answer.code >= 500:
            return f"{body['kind']}: {answer.code}: {answer.body.get('message')}"
        self._taken.add(key)
        return ""


def _pod(template: Mapping[str, Any]) -> Manifest:
    """The pod that a controller would create of a template; Jobs' controllers give it the name."""
    metadata = {**template.get("metadata", {}), "name": "pod", "namespace": NAMESPACE}
    spec = {**template["spec"], "restartPolicy": template["spec"].get("restartPolicy", "Never")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _complete(body: Manifest) -> Manifest:
    """A Secret with data, which the engine adds; other objects as they are."""
    if body["kind"] != "Secret":
        return body
    return {**body, "data": {".dockerconfigjson": "e30=", "ssh-privatekey": "eA==", "username": "eA=="}}


@contextmanager
def dry_run_server(folder: Path) -> Iterator[Server]:
    """An API server with the namespace of the drawn objects, and the definitions of the operators' kinds."""
    with api_server(folder) as server:
        server.make_namespace(NAMESPACE)
        for body in _definitions():
            server.send("POST", _DEFINITIONS, body).checked()
        _wait_for_definitions(server)
        yield Server(server)


def _definitions() -> Iterator[Manifest]:
    """The operators' definitions in the version that is declared, without webhooks, behind which nothing is."""
    yield from map(definition, FILES)
    releases = yaml.safe_load((ROOT / "defaults.yaml").read_text(encoding="utf-8"))["operators"]
    for release in (each["manifest"] for each in releases.values()):
        for body in read_release(ROOT / release["path"], release["sha256"], ROOT / ".trainstack/cache"):
            # The training operator has an older MPIJob.
            if body["kind"] == "CustomResourceDefinition" and body["spec"]["names"]["kind"] in _KINDS - {*FILES}:
                spec = {key: value for key, value in body["spec"].items() if key != "conversion"}
                spec["versions"] = [{**body["spec"]["versions"][-1], "storage": True}]
                yield {**body, "metadata": {"name": body["metadata"]["name"]}, "spec": spec}


def _wait_for_definitions(server: ApiServer) -> None:
    """Until each kind is served, which is some moments after its definition is taken."""
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        conditions = [
            each["status"].get("conditions") or () for each in server.send("GET", _DEFINITIONS).checked()["items"]
        ]
        if len(conditions) == len(_KINDS) and all(
            any(one["type"] == "Established" and one["status"] == "True" for one in each) for each in conditions
        ):
            return
        time.sleep(0.1)
    raise AssertionError("the API server does not serve the operators' kinds")

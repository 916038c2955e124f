"""What Pulumi's Kubernetes provider (4.25) does to an API server, as far as this project's resources use it.

Create is a server-side apply of whatever has the name; delete goes by name; both follow the kubeconfig that the
provider's process found when it was configured. With `enableServerSideApply: false` create is a POST.

Source: github.com/pulumi/pulumi-kubernetes, provider/pkg/provider/provider.go and provider/pkg/await/await.go
"""

import base64
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

import httpx
import yaml

from tests.stateful.json_values import (
    Body,
    Path,
    contains_unknown,
    copy,
    differences,
    is_below,
    parse,
    prune,
    set_value,
    value_at,
)
from tests.stateful.network import Network
from trainstack.live import paths
from trainstack.objects.labels import FIELD_MANAGER, PATCH_FORCE, SKIP_AWAIT

FORBIDDEN, CONFLICT = httpx.codes.FORBIDDEN, httpx.codes.CONFLICT
DELETION_TIMEOUT_SECONDS = 60.0
"""For how long a deletion is waited for; the provider would wait for minutes."""
DELETION_TIMEOUT_MESSAGE = "was not deleted in time"
_READ_ONLY = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "uid",
)
_IDENTITY: tuple[Path, ...] = (("metadata", "name"), ("metadata", "namespace"))
_IMMUTABLE: Mapping[str, tuple[Path, ...]] = {
    "Job": (("spec", "completions"), ("spec", "parallelism"), ("spec", "selector"), ("spec", "template")),
    "Pod": tuple(
        ("spec", key)
        for key in (
            "affinity",
            "automountServiceAccountToken",
            "nodeSelector",
            "priorityClassName",
            "restartPolicy",
            "runtimeClassName",
            "schedulerName",
            "securityContext",
            "serviceAccountName",
            "terminationGracePeriodSeconds",
            "volumes",
        )
    ),
    "PersistentVolumeClaim": (
        ("spec", "accessModes"),
        ("spec", "selector"),
        ("spec", "storageClassName"),
        ("spec", "volumeName"),
    ),
    "StorageClass": (("parameters",), ("provisioner",)),
    "RoleBinding": (("roleRef",),),
    "ClusterRoleBinding": (("roleRef",),),
}
"""What the provider replaces an object for."""


class RequestFailedError(Exception):
    """The API server refused a request with a status, or did not complete it."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Diff:
    """The provider's diff of new inputs."""

    changed: tuple[Path, ...]
    replaces: tuple[Path, ...]
    delete_before_replace: bool


@dataclass(frozen=True)
class Cluster:
    """The cluster of a kubeconfig's context."""

    client: httpx.Client
    namespace: str


def connect(kubeconfig: str, context: str | None) -> Cluster:
    """Read a kubeconfig, by its path or its content, as the provider does when it is configured."""
    text = kubeconfig if "\n" in kubeconfig or kubeconfig.startswith("{") else File(kubeconfig).read_text()
    config = yaml.safe_load(text)
    name = context or config["current-context"]
    chosen = _named(config["contexts"], name)["context"]
    cluster, user = _named(config["clusters"], chosen["cluster"])["cluster"], _named(config["users"], chosen["user"])
    tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    with tempfile.TemporaryDirectory() as folder:
        for part in ("certificate", "key"):
            data = base64.b64decode(user["user"][f"client-{part}-data"])
            (File(folder) / part).write_bytes(data)
        tls.load_cert_chain(f"{folder}/certificate", f"{folder}/key")
    client = httpx.Client(base_url=cluster["server"], verify=tls, timeout=30, trust_env=False)
    return Cluster(client, chosen.get("namespace", "default"))


def _named(entries: Sequence[Body], name: str) -> Body:
    for entry in entries:
        if entry["name"] == name:
            return entry
    raise RequestFailedError(f"the kubeconfig has no {name!r}")


@dataclass(frozen=True)
class Provider:
    """A configured provider."""

    cluster: Cluster
    apply: bool
    """Whether it uses server-side apply."""
    collect_garbage: Callable[[], None]
    """Has the cluster's garbage collector act, which a deletion waits for."""
    network: Network

    def check(self, inputs: Body) -> Body:
        """Return the inputs as the provider stores them."""
        checked: Body = copy(inputs)
        for key in _READ_ONLY:
            checked.get("metadata", {}).pop(key, None)
        if not self.apply and isinstance(checked["metadata"].get("labels"), dict):
            checked["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "pulumi"
        if self.apply and checked["metadata"].get("generateName"):
            raise RequestFailedError("the `.metadata.generateName` field is not supported in Server-Side Apply mode")
        return checked

    def diff(self, old_inputs: Body, live: Body, inputs: Body, ignored: Sequence[str]) -> Diff:
        """Compare the new inputs with the last known live object, as far as that was declared."""
        before, after = prune(live, old_inputs), copy(inputs)
        for tree in (before, after):
            for key in _READ_ONLY:
                tree["metadata"].pop(key, None)
        if "name" in after["metadata"]:
            before["metadata"]["name"] = live["metadata"]["name"]
        left_out = [parse(ignored_path) for ignored_path in ignored]
        changed = tuple(path for path in differences(before, after) if not is_below(path, left_out))
        fixed = (*_IDENTITY, *_IMMUTABLE.get(inputs["kind"], ()))
        replaces = tuple(path for path in changed if is_below(path, fixed) or path == ("metadata",))
        same_place = all(value_at(inputs, path) == value_at(live, path) for path in _IDENTITY)
        return Diff(changed, replaces, bool(replaces) and same_place)

    def create(self, inputs: Body, *, dry_run: bool) -> Body:
        """Make the object, or write over the one of its name. Returns the live object."""
        try:
            return self._create(inputs, dry_run=dry_run)
        except RequestFailedError as error:
            conflict = "Server-Side Apply field conflict detected. " if self.apply and error.status == CONFLICT else ""
            name = inputs["metadata"].get("name", "")
            message = f'resource "{name}" was not successfully created by the Kubernetes API server: {conflict}{error}'
            raise RequestFailedError(message, error.status) from error

    def _create(self, inputs: Body, *, dry_run: bool) -> Body:
        if not self.apply:
            return self._send("POST", _collection(inputs), inputs, {"fieldManager": "pulumi-kubernetes"}, dry_run)
        force = dry_run or _annotated(inputs, PATCH_FORCE)
        query = {"fieldManager": _manager(inputs), "force": str(force).lower(), "fieldValidation": "Warn"}
        return self._send("PATCH", paths.object_path(inputs), inputs, query, dry_run)

    def update(self, inputs: Body, live: Body, ignored: Sequence[str], *, dry_run: bool) -> Body:
        """Edit the object that has the name. Returns the live object."""
        path = paths.object_path(live)
        current = self.get(path)
        if current is None:
            raise RequestFailedError(f"update of {path} failed: not found")
        wanted = copy(inputs)
        for ignored_path in ignored:
            set_value(wanted, parse(ignored_path), value_at(current, parse(ignored_path)))
        for key in _READ_ONLY:
            wanted["metadata"].pop(key, None)
        if not self.apply:
            patch = {key: value for key, value in wanted.items() if key not in ("apiVersion", "kind")}
            return self._send("PATCH", path, patch, {"fieldManager": "pulumi-kubernetes"}, dry_run, "merge-patch+json")
        query = {"fieldManager": _manager(inputs), "force": str(_annotated(inputs, PATCH_FORCE)).lower()}
        return self._send("PATCH", path, wanted, query, dry_run)

    def delete(self, live: Body) -> None:
        """Delete whatever has the object's name, and wait until it is gone where the provider does."""
        path = paths.object_path(live)
        answer = self._answer("DELETE", path, {"propagationPolicy": "Foreground"}, {}, "json")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return
        _checked(answer)
        if _annotated(live, SKIP_AWAIT):
            return
        end = time.monotonic() + DELETION_TIMEOUT_SECONDS
        while self.get(path) is not None:
            self.collect_garbage()
            if time.monotonic() > end:
                raise RequestFailedError(f"{path} {DELETION_TIMEOUT_MESSAGE}")

    def read(self, kind: str, name: str) -> Body | None:
        """The live object by its type token and `<namespace>/<name>`; None where there is none."""
        group_version, _, what = kind.removeprefix("kubernetes:").rpartition(":")
        namespace, _, last = name.rpartition("/")
        metadata = {"name": last, **({"namespace": namespace} if namespace else {})}
        body = {"apiVersion": group_version.removeprefix("core/"), "kind": what, "metadata": metadata}
        return self.get(paths.object_path(body))

    def get(self, path: str) -> Body | None:
        """The live object at a path; None where there is none."""
        answer = self._answer("GET", path, None, {}, "json")
        return None if answer.status_code == httpx.codes.NOT_FOUND else _checked(answer)

    def _send(self, verb: str, path: str, body: Body, query: Mapping[str, str], dry_run: bool, kind: str = "") -> Body:
        kind = kind or ("json" if verb == "POST" else "apply-patch+yaml")
        return _checked(self._answer(verb, path, body, {**query, **({"dryRun": "All"} if dry_run else {})}, kind))

    def _answer(self, verb: str, path: str, body: Any, query: Mapping[str, str], kind: str) -> httpx.Response:
        headers = {"Content-Type": f"application/{kind}"}
        assert not contains_unknown(body)
        client = self.cluster.client
        request = client.build_request(verb, path, json=body, params=dict(query), headers=headers)
        fault = "" if verb == "GET" or "dryRun" in query else self.network.next_fault()
        try:
            self.network.before(fault, request)
            answer = client.send(request)
            self.network.after(fault, request)
        except httpx.TransportError as error:
            raise RequestFailedError(f'{verb.capitalize()} "{request.url}": {error}') from error
        return answer


def _checked(answer: httpx.Response) -> Body:
    if answer.status_code >= httpx.codes.MULTIPLE_CHOICES:
        try:
            message = answer.json().get("message", "")
        except ValueError:
            message = answer.text
        raise RequestFailedError(message, answer.status_code)
    body: Body = answer.json()
    return body


def _collection(body: Body) -> str:
    return paths.collection_path(body["apiVersion"], body["kind"], body["metadata"].get("namespace"))


def _annotated(body: Body, key: str) -> bool:
    return (body["metadata"].get("annotations") or {}).get(key) == "true"


def _manager(inputs: Body) -> str:
    return str((inputs["metadata"].get("annotations") or {}).get(FIELD_MANAGER, "pulumi-kubernetes-unnamed"))

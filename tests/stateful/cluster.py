"""The parts of a cluster that a test plays beside the API server: controllers, and people with kubectl."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from tests.apiserver import ApiServer
from tests.stateful.json_values import Body
from trainstack.live import paths
from trainstack.objects.labels import FIELD_MANAGER, LEDGER, STACK, STATE
from trainstack.runs.ledgers import is_claim

Status = Literal["running", "succeeded", "failed", "suspended"]
TIMESTAMP = "2026-01-01T00:00:00Z"
MERGE = "application/merge-patch+json"
ROLE = "trainstack-search-tenant"
CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
ACTIVE = frozenset({"running", "suspended"})


@dataclass
class Launch:
    """An object that trains, as it was last seen."""

    server: str
    uid: str
    run_id: str
    """Of the first look: a person may remove the label."""
    path: str
    status: Status = "running"
    deleted: bool = False
    """It is deleted, or is being deleted."""
    deleted_externally: bool = False
    """A person deleted it, or the cluster did."""
    ttl_seconds: int | None = None
    """How long it stays when it has ended; None: for ever."""
    ended_at: float | None = None
    """When it was first seen ended, of `time.monotonic`."""

    @property
    def namespace(self) -> str:
        """Where it is."""
        return self.path.split("/")[-3]

    @property
    def name(self) -> str:
        """What it is called."""
        return self.path.split("/")[-1]

    def is_same_run(self, other: "Launch") -> bool:
        """Whether both are launches of one run on one server."""
        return (self.server, self.run_id) == (other.server, other.run_id)

    @property
    def active(self) -> bool:
        """Whether it waits or runs."""
        return not self.deleted and self.status in ACTIVE


def launches(server: ApiServer, namespaces: list[str]) -> Iterator[Body]:
    """All Jobs and Pods there."""
    for namespace in namespaces:
        for version, kind in (("batch/v1", "Job"), ("v1", "Pod")):
            found = server.get(paths.collection_path(version, kind, namespace))
            for body in (found or {}).get("items", []):
                yield {"apiVersion": version, "kind": kind, **body}


def status_of(body: Body) -> Status:
    """Return the status that it would report."""
    status = body.get("status") or {}
    true = {condition["type"] for condition in status.get("conditions") or () if condition["status"] == "True"}
    if "Complete" in true or status.get("phase") == "Succeeded":
        return "succeeded"
    if "Failed" in true or status.get("phase") == "Failed":
        return "failed"
    return "suspended" if body["spec"].get("suspend") else "running"


def set_status(server: ApiServer, path: str, status: Status) -> None:
    """Play the Job controller, or the kubelet. What has ended does not begin again."""
    body = server.get(path)
    if body is None or status_of(body) in ("succeeded", "failed"):
        return
    if body["kind"] == "Pod":
        phase = {"succeeded": "Succeeded", "failed": "Failed"}.get(status, "Running")
        server.send("PATCH", f"{path}/status", {"status": {"phase": phase}}, MERGE)
        return
    server.send("PATCH", path, {"spec": {"suspend": status == "suspended"}}, MERGE)
    if status in ("succeeded", "failed"):
        server.send("PATCH", f"{path}/status", {"status": _ended(status)}, MERGE).checked()


def _ended(status: Status) -> Body:
    kinds = ("SuccessCriteriaMet", "Complete") if status == "succeeded" else ("FailureTarget", "Failed")
    condition = {"status": "True", "lastProbeTime": TIMESTAMP, "lastTransitionTime": TIMESTAMP, "reason": "Test"}
    base_status: Body = {
        "conditions": [{"type": kind, **condition} for kind in kinds],
        "startTime": TIMESTAMP,
        "ready": 0,
    }
    return {
        **base_status,
        **({"completionTime": TIMESTAMP, "succeeded": 1} if status == "succeeded" else {"failed": 1}),
    }


def collect_garbage(server: ApiServer, namespaces: list[str]) -> None:
    """Play the garbage collector: what was deleted in the foreground goes, and claims that no pod protects."""
    for body in all_objects(server, namespaces):
        finalizers = {*body["metadata"].get("finalizers", [])}
        if "deletionTimestamp" in body["metadata"] and finalizers & {"foregroundDeletion", CLAIM_PROTECTION}:
            server.send("PATCH", paths.object_path(body), {"metadata": {"finalizers": None}}, MERGE)
    for name in namespaces:
        namespace = server.get(f"/api/v1/namespaces/{name}")
        if namespace and "deletionTimestamp" in namespace["metadata"]:
            namespace["spec"] = {}
            namespace["metadata"].pop("finalizers", None)
            server.send("PUT", f"/api/v1/namespaces/{name}/finalize", namespace)


def all_objects(server: ApiServer, namespaces: list[str]) -> list[Body]:
    """The namespaces, and what is in them of the kinds that the search declares."""
    return [*launches(server, namespaces), *_others(server, namespaces)]


def _others(server: ApiServer, namespaces: list[str]) -> Iterator[Body]:
    kinds = (("v1", "ConfigMap"), ("v1", "PersistentVolumeClaim"), ("networking.k8s.io/v1", "NetworkPolicy"))
    for namespace in namespaces:
        body = server.get(f"/api/v1/namespaces/{namespace}")
        if body:
            yield {"apiVersion": "v1", **body}
        for version, kind in kinds:
            for item in (server.get(paths.collection_path(version, kind, namespace)) or {}).get("items", []):
                yield {"apiVersion": version, "kind": kind, **item}


def config_maps(server: ApiServer, namespaces: list[str], stack: str, mark: str) -> list[Body]:
    """The ledgers or wrappers of a stack; of all stacks if its name is empty."""
    found = []
    for namespace in namespaces:
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        listed = server.send("GET", path, labelSelector=f"{STACK}={stack},{mark}" if stack else mark).checked()
        found += [{"apiVersion": "v1", "kind": "ConfigMap", **body} for body in listed["items"]]
    return found


def claims(server: ApiServer, namespaces: list[str]) -> list[Body]:
    """The open claims of all stacks."""
    return [body for body in config_maps(server, namespaces, "", LEDGER) if is_claim(body)]


def arrive(server: ApiServer, claim: Body) -> None:
    """Create the launch of a claim: the request whose answer was lost takes effect."""
    launch = json.loads(claim["data"]["launch"])
    own = {key: claim["metadata"]["annotations"][key] for key in (STATE, FIELD_MANAGER)}
    launch["metadata"]["annotations"] = {**launch["metadata"].get("annotations", {}), **own}
    folder = paths.collection_path(launch["apiVersion"], launch["kind"], launch["metadata"]["namespace"])
    server.send("POST", folder, launch).checked()


def age(server: ApiServer, claim: Body, seconds: float) -> None:
    """Let the API server have stored a claim so many seconds earlier."""
    for entry in claim["metadata"]["managedFields"]:
        entry["time"] = f"{datetime.fromisoformat(entry['time']) - timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"
    # The API server ignores a write that changes nothing but times.
    claim["metadata"]["annotations"]["aged"] = str(seconds)
    server.send("PUT", paths.object_path(claim), claim).checked()


def delete(server: ApiServer, path: str) -> None:
    """Delete an object as a person or a TTL does; it is gone at once."""
    server.send("DELETE", path, {"propagationPolicy": "Background"})


def copy(server: ApiServer, path: str) -> str:
    """Make another object of the same labels and spec; its uid."""
    body = server.send("GET", path).checked()
    spec = {key: value for key, value in body["spec"].items() if key not in ("selector", "nodeName")}
    labels = _own(body["metadata"]["labels"])
    if "template" in spec:
        spec["template"]["metadata"]["labels"] = _own(spec["template"]["metadata"]["labels"])
    annotations = body["metadata"].get("annotations") or {}
    metadata: Body = {"generateName": "copy-", "labels": labels, "annotations": annotations}
    another = {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": metadata, "spec": spec}
    made = server.send("POST", path.rpartition("/")[0], another)
    return str(made.checked()["metadata"]["uid"])


def _own(labels: Body) -> Body:
    """Without those that the API server adds."""
    return {key: value for key, value in labels.items() if "controller-uid" not in key and "job-name" not in key}


def remove_label(server: ApiServer, path: str, label: str) -> None:
    """Remove a label."""
    server.send("PATCH", path, {"metadata": {"labels": {label: None}}}, MERGE)


def edit_mark(server: ApiServer, path: str, mark: str, value: str | None) -> str | None:
    """Change the label STACK or the annotation STATE of an object; None removes it. Returns its value before."""
    field = "annotations" if mark == STATE else "labels"
    metadata = (server.get(path) or {}).get("metadata") or {}
    server.send("PATCH", path, {"metadata": {field: {mark: value}}}, MERGE)
    old: str | None = (metadata.get(field) or {}).get(mark)
    return old


def bind(server: ApiServer, path: str) -> bool:
    """Play the controller that gives a claim its volume; whether it is bound."""
    claim = server.get(path)
    if claim is None or "deletionTimestamp" in claim["metadata"]:
        return False
    name = claim["spec"].get("volumeName") or f"pv-{claim['metadata']['uid']}"
    server.send("PATCH", path, {"spec": {"volumeName": name}}, MERGE).checked()
    server.send("PATCH", f"{path}/status", {"status": {"phase": "Bound"}}, MERGE).checked()
    return True


def set_quota(server: ApiServer, namespace: str, resource: str | None) -> None:
    """Allow no more objects of a kind (`count/configmaps`) in a namespace; None: any number again."""
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    server.send("DELETE", f"{path}/search")
    if resource is not None:
        spec = {"hard": {resource: "0"}}
        body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "search"}, "spec": spec}
        server.send("POST", path, body).checked()
        # The quota's controller says first how much is used.
        server.send("PATCH", f"{path}/search/status", {"status": {**spec, "used": {resource: "0"}}}, MERGE).checked()


def grant_tenant_role(server: ApiServer, user: str, namespaces: list[str]) -> None:
    """Give a person the rights of a tenant of these namespaces."""
    for namespace in namespaces:
        subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
        body = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"{ROLE}-{user}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE},
            "subjects": [subject],
        }
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
        server.send("POST", path, body).checked()


def create_tenant_role(server: ApiServer) -> None:
    """What every cluster of the search has: the tenants' role."""
    everything = ["get", "list", "watch", "create", "update", "patch", "delete"]
    kinds = ["configmaps", "pods", "pods/log", "persistentvolumeclaims", "secrets", "events", "serviceaccounts"]
    rules: list[Any] = [
        {"apiGroups": [""], "resources": kinds, "verbs": everything},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": everything},
        {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": everything},
    ]
    body = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": ROLE}}
    server.send("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", {**body, "rules": rules}).checked()

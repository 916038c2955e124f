"""An API server with an environment's committed rights, and objects that do not belong to the environment."""

import ssl
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import httpx
import yaml

from tests.apiserver import ApiServer, User, api_server
from tests.cluster.escalation_requests import (
    ALL_RULES,
    CUSTOM,
    EXISTING,
    HARDENED,
    INTRUDER,
    KINDS,
    OTHERS,
    PRIVILEGED,
    SYSTEM,
    Body,
    Person,
    location,
    make_certificate_request,
    make_definition,
)
from tests.cluster.project import ROOT, eventually
from trainstack.cli.commands.rights import FOLDER
from trainstack.cli.session import Session
from trainstack.local_cluster.state_folder import Layout
from trainstack.objects.labels import POD_SECURITY
from trainstack.platform.rbac.policies import API as ADMISSION
from trainstack.platform.rbac.rights import API, rights_of_role
from trainstack.platform.teams import team_manifests as rights_of_team

PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ValidatingAdmissionPolicy": f"/apis/{ADMISSION}/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"/apis/{ADMISSION}/v1/validatingadmissionpolicybindings",
}
ADMINISTRATOR, ADMIN_NAMESPACE = "administrator", "mine"
"""A user with every right, and the user's namespace."""


@contextmanager
def populated_server(folder: Path) -> Iterator[ApiServer]:
    """Run an API server with the operators' kinds, and objects of others in its namespaces."""
    with api_server(folder) as running:
        for kind, namespaced in CUSTOM.items():
            version, plural = KINDS[kind]
            group, _, name = version.partition("/")
            body = make_definition(group, plural, namespaced=namespaced, version=name, kind=kind)
            running.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body).checked()
        for kind in CUSTOM:
            eventually(f"{kind} is served", partial(_is_served, running, kind), 30, every=0.05)
        running.make_namespace(OTHERS)
        for namespace in (SYSTEM, "default"):
            _make(running, "ServiceAccount", "default", namespace, {})
        for namespace in (SYSTEM, OTHERS, "default"):
            _populate(running, namespace)
        running.send(
            "POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", make_certificate_request()
        ).checked()
        running.send(
            "POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": EXISTING}}
        ).checked()
        role = _powerful("ClusterRole", EXISTING)
        for body in (role, _bound(role)):
            running.send("POST", _path(body), body).checked()
        _ensure_namespace(running, ADMIN_NAMESPACE)
        _deny(running, EXISTING)
        yield running


def _is_served(server: ApiServer, kind: str) -> bool:
    return server.send("GET", location(kind, "")).code == httpx.codes.OK


def objects_of(stack: str, *kinds: str) -> list[Body]:
    """Return the objects of an environment's committed file."""
    text = (ROOT / FOLDER / f"{stack}.yaml").read_text(encoding="utf-8")
    return [body for body in yaml.safe_load_all(text) if not kinds or body["kind"] in kinds]


@contextmanager
def applied_rights(server: ApiServer, session: Session) -> Iterator[list[Person]]:
    """Apply the committed rights of an environment and its teams, and bind each role to a user of the same name."""
    with ExitStack() as undo:
        objects = objects_of(session.stack)
        roles: dict[str, list[Body]] = {}
        for team in session.settings.tenants.teams:
            objects += [item for item in rights_of_team(team, session.stack) if item["kind"] == "Role"]
        for body in objects:
            if body["kind"] == "Namespace":
                _apply_namespace(server, body)
        for body in objects:
            if body["kind"] in ("Role", "ClusterRole"):
                roles.setdefault(body["metadata"]["name"], []).append(body)
                if namespace := body["metadata"].get("namespace"):
                    _ensure_namespace(server, namespace)
        granted = [grant for several in roles.values() for role in several for grant in rights_of_role(role)]
        bound = {
            (grant.resource, grant.namespace, grant.name) for grant in granted if grant.verb == "bind" and grant.name
        }
        kinds = {"roles": "Role", "clusterroles": "ClusterRole"}
        # The bindable roles belong to an operator that is not installed here.
        objects += [_powerful(kinds[kind], name, place) for kind, place, name in sorted(bound) if name not in roles]
        for body in (*objects, *(_bound(role) for several in roles.values() for role in several)):
            if body["kind"] != "Namespace" and server.get(f"{_path(body)}/{body['metadata']['name']}") is None:
                path = _path(body)
                server.send("POST", path, body).checked()
                undo.callback(server.send, "DELETE", f"{path}/{body['metadata']['name']}")
        _settle(server, session.stack)
        declared = {item["metadata"]["name"] for item in objects if item["kind"] == "Namespace"}
        yield [_person(name, several, declared) for name, several in roles.items()]


def _person(name: str, roles: list[Body], declared: set[str]) -> Person:
    granted = frozenset(grant for role in roles for grant in rights_of_role(role))
    writing = {grant.namespace for grant in granted if grant.verb not in ("get", "list", "watch") and not grant.name}
    own = writing | (declared if name.startswith("trainstack-") else set())
    return Person(name, name, tuple(sorted(own - {""})), granted)


def _path(body: Body) -> str:
    kind, namespace = body["kind"], body["metadata"].get("namespace", "")
    return PATHS[kind] if kind in PATHS else location(kind, namespace)


def _bound(role: Body) -> Body:
    name = role["metadata"]["name"]
    return {
        "apiVersion": role["apiVersion"],
        "kind": f"{role['kind']}Binding",
        "metadata": role["metadata"],
        "roleRef": {"apiGroup": API, "kind": role["kind"], "name": name},
        "subjects": [{"apiGroup": API, "kind": "User", "name": name}],
    }


def _make(server: ApiServer, kind: str, name: str, namespace: str, rest: Body) -> None:
    body = {"apiVersion": KINDS[kind][0], "kind": kind, "metadata": {"name": name}, **rest}
    server.send("POST", location(kind, namespace), body).checked()


def _populate(server: ApiServer, namespace: str) -> None:
    """Create the objects of others in a namespace."""
    for kind in ("ServiceAccount", "Secret", "ConfigMap"):
        _make(server, kind, EXISTING, namespace, {})
    _make(server, "Pod", EXISTING, namespace, {"spec": HARDENED})
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": EXISTING}, "spec": claim}
    server.send("POST", f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", body).checked()
    role = _powerful("Role", EXISTING, namespace)
    for item in (role, _bound(role)):
        server.send("POST", _path(item), item).checked()


def _powerful(kind: str, name: str, namespace: str = "") -> Body:
    """Return a role of others with many rights."""
    within = {"namespace": namespace} if namespace else {}
    return {"apiVersion": f"{API}/v1", "kind": kind, "metadata": {"name": name, **within}, "rules": ALL_RULES}


def _ensure_namespace(server: ApiServer, name: str) -> None:
    if server.get(f"/api/v1/namespaces/{name}") is None:
        server.make_namespace(name)
        _populate(server, name)


def _apply_namespace(server: ApiServer, body: Body) -> None:
    """Apply a namespace as the administrator, and wait until its Pod Security level is enforced."""
    name, labels = body["metadata"]["name"], body["metadata"]["labels"]
    _ensure_namespace(server, name)
    server.send(
        "PATCH",
        f"/api/v1/namespaces/{name}",
        body,
        "application/apply-patch+yaml",
        fieldManager=ADMINISTRATOR,
        force="true",
    ).checked()
    if labels.get(f"{POD_SECURITY}enforce") in ("baseline", "restricted"):
        eventually(f"the level of {name}", lambda: not admits_privileged_pods(server, name), 30, every=0.05)


def admits_privileged_pods(server: ApiServer, namespace: str) -> bool:
    """Return whether a namespace admits a privileged pod."""
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": INTRUDER}, "spec": PRIVILEGED}
    return server.send("POST", location("Pod", namespace), body, dryRun="All").code < 300


def _deny(server: ApiServer, name: str) -> None:
    """Create a policy that denies the ConfigMap `<name>-denied`."""
    spec = {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
            ]
        },
        "validations": [{"expression": f"object.metadata.name != '{name}-denied'"}],
    }
    head: Body = {"apiVersion": f"{ADMISSION}/v1", "metadata": {"name": name}}
    policy = {**head, "kind": "ValidatingAdmissionPolicy", "spec": spec}
    binding = {
        **head,
        "kind": "ValidatingAdmissionPolicyBinding",
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    for body in (policy, binding):
        server.send("POST", PATHS[body["kind"]], body).checked()


def _settle(server: ApiServer, stack: str) -> None:
    """Return once the API server acts by all roles, bindings and policies made so far.

    It follows each kind in the order of changes: once it acts by a last object of each, it acts by all before.
    """
    name = f"settled-{stack}"
    head: Body = {"apiVersion": f"{API}/v1", "metadata": {"name": name}}
    rule = {"apiGroups": [""], "verbs": ["get"], "resourceNames": [name]}
    for kind, resource in (("ClusterRole", "nodes"), ("Role", "secrets")):
        role = {**head, "kind": kind, "rules": [{**rule, "resources": [resource]}]}
        place = "default" if kind == "Role" else ""
        for body in (role, _bound(role)):
            server.send("POST", location(body["kind"], place), body).checked()
    _deny(server, name)
    configmap = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-denied"}}

    def settled() -> bool:
        permissions = [("nodes", ""), ("secrets", "default")]
        may = all(_may(server, name, resource, namespace) for resource, namespace in permissions)
        return may and server.send("POST", location("ConfigMap", "default"), configmap, dryRun="All").code >= 400

    eventually("roles and policies are in force", settled, 60, every=0.05)


def _may(server: ApiServer, name: str, resource: str, namespace: str) -> bool:
    attributes = {"verb": "get", "version": "v1", "resource": resource, "namespace": namespace, "name": name}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": name, "resourceAttributes": attributes},
    }
    answer = server.send("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body).checked()
    return bool(answer["status"]["allowed"])


@contextmanager
def client_of(server: ApiServer, user: User) -> Iterator[httpx.Client]:
    """Yield a client of the API server with the user's certificate."""
    layout = Layout(server.state)
    credentials = server.credentials(user)
    files = {name: layout.tmp / f"{user.name}.{name}" for name in ("crt", "key")}
    files["crt"].write_bytes(b64decode(credentials["client-certificate-data"]))
    files["key"].write_bytes(b64decode(credentials["client-key-data"]))
    tls = ssl.create_default_context(cafile=str(layout.certs / "ca.crt"))
    tls.load_cert_chain(files["crt"], files["key"])
    with closing(httpx.Client(base_url=server.server, verify=tls, timeout=30, trust_env=False)) as client:
        yield client

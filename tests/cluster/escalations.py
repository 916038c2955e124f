"""Attempts to exceed the purpose of a role."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tests.cluster.escalation_requests import (
    ALL_RULES,
    DRY_RUN,
    EXISTING,
    HARDENED,
    INTRUDER,
    OTHERS,
    PRIVILEGED,
    SYSTEM,
    Body,
    MakeRequests,
    Person,
    Request,
    apply,
    create_objects,
    create_pod,
    create_pod_and_controllers,
    create_pod_controllers,
    create_requests,
    delete_requests,
    location,
    make_definition,
    patch,
    post,
    read_requests,
)
from trainstack.platform import probes
from trainstack.platform.rbac.rights import API


@dataclass(frozen=True)
class Attempt:
    """An attempt. It succeeds if any of its requests does."""

    title: str
    means: tuple[str, ...]
    """The ids of escalations; if the attempt succeeds, one of them must be listed."""
    places: tuple[str, ...]
    """Namespaces; "" for the cluster, OWN for all for which the role is intended."""
    make_requests: MakeRequests
    connects: bool = False
    """Whether it connects to a node: none is running, so any response other than a refusal is a success."""
    makes_pods: bool = False
    """Whether it succeeds only if the namespace also admits the pod that a controller would create."""
    stores: bool = False
    """Whether it is no dry run; the administrator, whose requests all succeed, then skips it."""


OWN = "own"


def attempts() -> list[Attempt]:
    """Return all attempts."""
    return [*_pods(), *_reading(), *_roles(), *_namespaces(), *_admission(), *_identities(), *_nodes(), *_others()]


def _pods() -> list[Attempt]:
    account = {**HARDENED, "serviceAccountName": EXISTING}
    mounting = {**HARDENED, "volumes": [{"name": "s", "secret": {"secretName": EXISTING}}]}
    return [
        Attempt("privileged hostPath pod in kube-system", ("privileged-pods",), (SYSTEM,), create_pod(PRIVILEGED)),
        Attempt(
            "privileged hostPath pod in another's namespace", ("privileged-pods",), (OTHERS,), create_pod(PRIVILEGED)
        ),
        Attempt("privileged hostPath pod in its own namespace", ("privileged-pods",), (OWN,), create_pod(PRIVILEGED)),
        Attempt(
            "the same by a Job, PyTorchJob, JobSet or Deployment",
            ("privileged-pods",),
            (SYSTEM, OTHERS, OWN),
            create_pod_controllers(PRIVILEGED),
            makes_pods=True,
        ),
        Attempt(
            "pod of another ServiceAccount",
            ("pod-identities",),
            (SYSTEM, OTHERS, OWN),
            create_pod_and_controllers(account),
        ),
        Attempt(
            "pod that mounts another's Secret",
            ("pod-identities",),
            (SYSTEM, OTHERS, OWN),
            create_pod_and_controllers(mounting),
        ),
        _connecting("exec into another's pod", "exec"),
        _connecting("attach to another's pod", "attach"),
        _connecting("port-forward to another's pod", "portforward"),
        Attempt(
            "ephemeral container in another's pod",
            ("exec",),
            (SYSTEM, OTHERS, OWN),
            lambda _, place: [
                patch(
                    f"/api/v1/namespaces/{place}/pods/{EXISTING}/ephemeralcontainers",
                    {"spec": {"ephemeralContainers": [{**HARDENED["containers"][0], "name": "e"}]}},
                )
            ],
        ),
    ]


def _connecting(title: str, part: str) -> Attempt:
    query = (("command", "id"), ("container", "c"), ("stdout", "true"))

    def make_requests(_: Person, place: str) -> list[Request]:
        path = f"/api/v1/namespaces/{place}/pods/{EXISTING}/{part}"
        return [Request(verb, path, query=query) for verb in ("POST", "GET")]

    return Attempt(title, ("exec",), (SYSTEM, OTHERS, OWN), make_requests, connects=True)


def _reading() -> list[Attempt]:
    return [
        Attempt("read Secrets of kube-system", ("secrets",), (SYSTEM,), read_requests("secrets")),
        Attempt("read Secrets of another's namespace", ("secrets",), (OTHERS,), read_requests("secrets")),
        Attempt("read Secrets of its own namespace", ("secrets",), (OWN,), read_requests("secrets")),
        Attempt("read all Secrets", ("secrets",), ("",), lambda *_: [Request("GET", "/api/v1/secrets")]),
        Attempt("read ConfigMaps of others", ("reads-all-namespaces",), (OTHERS,), read_requests("configmaps")),
        Attempt("read pods of others", ("reads-all-namespaces",), (OTHERS,), read_requests("pods")),
    ]


def _roles() -> list[Attempt]:
    admin = ("cluster-admin",)
    inside = ("namespace-admin",)
    everything: Body = {"rules": ALL_RULES}

    def own_role(person: Person, place: str) -> list[Request]:
        kind = f"namespaces/{place}/roles" if place else "clusterroles"
        return [
            patch(f"/apis/{API}/v1/{kind}/{person.role}", everything),
            patch(f"/apis/{API}/v1/{kind.replace('roles', 'rolebindings')}/{person.role}", {"subjects": []}),
        ]

    def bound(kind: str, name: str) -> Callable[[Person], Body]:
        return lambda person: {
            "roleRef": {"apiGroup": API, "kind": kind, "name": name},
            "subjects": [{"apiGroup": API, "kind": "User", "name": person.user}],
        }

    def declared(kind: str) -> MakeRequests:
        """Bind each role that may be bound, or an existing one if there is none."""

        def make_requests(person: Person, place: str) -> Iterator[Request]:
            for name in person.bindable(kind, place) or [EXISTING]:
                yield from create_objects(f"{kind}Binding", bound(kind, name))(person, place)

        return make_requests

    reader = bound("Role", "extension-apiserver-authentication-reader")
    return [
        Attempt(
            "bind cluster-admin to itself",
            admin,
            ("",),
            create_objects("ClusterRoleBinding", bound("ClusterRole", "cluster-admin")),
        ),
        Attempt(
            "new ClusterRole with every right", admin, ("",), create_objects("ClusterRole", everything, declared=False)
        ),
        Attempt("every right for a declared ClusterRole", admin, ("",), create_objects("ClusterRole", everything)),
        Attempt("edit its own ClusterRole or binding", admin, ("",), own_role),
        Attempt("edit its own Role or binding", inside, (OWN,), own_role),
        Attempt("Role with every right", inside, (SYSTEM, OTHERS, OWN), create_objects("Role", everything)),
        Attempt(
            "bind cluster-admin to itself in a namespace",
            inside,
            (SYSTEM, OTHERS, OWN),
            create_objects("RoleBinding", bound("ClusterRole", "cluster-admin")),
        ),
        Attempt("bind a Role of kube-system to itself", ("binding",), (SYSTEM,), create_objects("RoleBinding", reader)),
        Attempt(
            "bind an operator's ClusterRole to itself",
            ("binding", "cluster-admin"),
            ("",),
            declared("ClusterRole"),
        ),
        Attempt(
            "bind a declared Role to itself",
            ("binding", "namespace-admin"),
            (OWN,),
            declared("Role"),
        ),
    ]


def _namespaces() -> list[Attempt]:
    lowered = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}

    def relabel(_: Person, place: str) -> list[Request]:
        path = f"/api/v1/namespaces/{place}"
        applied = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place, **lowered["metadata"]}}
        bare = {"metadata": {"labels": None}}
        return [patch(path, lowered), patch(path, bare), apply(path, applied)]

    new = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": INTRUDER}}
    return [
        Attempt("lower the Pod Security level of kube-system", ("pod-security",), (SYSTEM,), relabel),
        Attempt("lower that of another's namespace", ("pod-security",), (OTHERS,), relabel),
        Attempt("lower that of its own namespace", ("pod-security",), (OWN,), relabel),
        Attempt(
            "create a namespace",
            ("pod-security",),
            ("",),
            lambda *_: [post("/api/v1/namespaces", new), apply(f"/api/v1/namespaces/{INTRUDER}", new)],
        ),
        Attempt("delete another's namespace", ("namespace-deletion",), (OTHERS,), _delete_namespace),
        Attempt("delete its own namespace", ("namespace-deletion",), (OWN,), _delete_namespace),
    ]


def _delete_namespace(_: Person, place: str) -> list[Request]:
    return [Request("DELETE", f"/api/v1/namespaces/{place}", query=DRY_RUN)]


def _admission() -> list[Attempt]:
    hook = {
        "name": "hook.example.org",
        "clientConfig": {"url": "https://example.org/"},
        "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
    }
    hooks: Body = {"webhooks": [hook]}
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    group = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"

    def policy(*_: object) -> list[Request]:
        paths = [f"{group}{end}/{EXISTING}" for end in ("ies", "ybindings")]
        return [
            request
            for path in paths
            for request in (Request("DELETE", path, query=DRY_RUN), patch(path, {"metadata": {"labels": {"a": "b"}}}))
        ]

    def definition(person: Person, _: str) -> list[Request]:
        found = []
        for name in person.names("apiextensions.k8s.io", "customresourcedefinitions"):
            plural, _dot, crd_group = name.partition(".")
            body = make_definition(crd_group or "example.org", plural, namespaced=True)
            found += create_requests("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
        return found

    def service(person: Person, _: str) -> list[Request]:
        found = []
        for name in person.names("apiregistration.k8s.io", "apiservices"):
            version, _dot, api_group = (name if "." in name else "v1.example.org").partition(".")
            spec = {"group": api_group, "version": version, "groupPriorityMinimum": 1, "versionPriority": 1}
            spec |= {"service": {"name": "s", "namespace": OTHERS}, "insecureSkipTLSVerify": True}
            body = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "spec": spec}
            body["metadata"] = {"name": f"{version}.{api_group}"}
            found += create_requests("/apis/apiregistration.k8s.io/v1/apiservices", body)
        return found

    return [
        Attempt("delete or edit an admission policy", ("admission",), ("",), policy),
        *(
            Attempt(f"{which} {kind}", ("webhooks",), ("",), create_objects(kind, hooks, declared=which == "declared"))
            for kind in kinds
            for which in ("new", "declared")
        ),
        Attempt("definition of a kind", ("definitions",), ("",), definition),
        Attempt("APIService", ("apiservices",), ("",), service),
    ]


def _identities() -> list[Attempt]:
    def token(_: Person, place: str) -> list[Request]:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["a"]}}
        return [post(f"/api/v1/namespaces/{place}/serviceaccounts/{EXISTING}/token", body)]

    def impersonate(*_: object) -> list[Request]:
        everybody = ("system:masters", "system:serviceaccounts")
        headers = [(("Impersonate-User", INTRUDER), ("Impersonate-Group", group)) for group in everybody]
        return [Request("GET", "/api/v1/namespaces", headers=pair) for pair in headers]

    approved = {"type": "Approved", "status": "True", "reason": "a", "message": "b"}
    approval = f"/apis/certificates.k8s.io/v1/certificatesigningrequests/{EXISTING}/approval"
    return [
        Attempt("token of another ServiceAccount", ("tokens",), (SYSTEM, OTHERS, OWN), token),
        Attempt("act as an administrator or a ServiceAccount", ("impersonation",), ("",), impersonate),
        Attempt(
            "approve a certificate",
            ("certificates",),
            ("",),
            lambda *_: [patch(approval, {"status": {"conditions": [approved]}})],
        ),
    ]


def _nodes() -> list[Attempt]:
    volume: Body = {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/"},
            "persistentVolumeReclaimPolicy": "Retain",
        }
    }
    node = f"/api/v1/nodes/{EXISTING}"
    return [
        Attempt("volume on the node's root folder", ("host-paths",), ("",), create_objects("PersistentVolume", volume)),
        Attempt(
            "edit a node",
            ("nodes",),
            ("",),
            lambda *_: [
                patch(node, {"metadata": {"labels": {"a": "b"}}}),
                patch(f"{node}/status", {"status": {"capacity": {"cpu": "1"}}}),
            ],
        ),
        Attempt("nodes/proxy", ("nodes",), ("",), lambda *_: [Request("GET", f"{node}/proxy/pods")], connects=True),
    ]


def _others() -> list[Attempt]:
    writes = ("writes-all-namespaces",)
    namespace_admin = ("namespace-admin",)
    quota: Body = {"spec": {"hard": {"pods": "1k"}}}
    lease: Body = {"spec": {"holderIdentity": INTRUDER}}
    queue: Body = {"spec": {"namespaceSelector": {}}}
    service: Body = {"spec": {"ports": [{"port": 443}], "externalIPs": ["203.0.113.1"]}}
    policy: Body = {"spec": {"podSelector": {}}}
    return [
        Attempt(
            "write ConfigMaps (ledgers) of others", writes, (SYSTEM, OTHERS), create_objects("ConfigMap", {"data": {}})
        ),
        Attempt("write Secrets of others", writes, (SYSTEM, OTHERS), create_objects("Secret", {})),
        Attempt("delete another's pods", writes, (SYSTEM, OTHERS), delete_requests("/api/v1", "pods")),
        Attempt("delete another's claims", writes, (OTHERS,), delete_requests("/api/v1", "persistentvolumeclaims")),
        Attempt("edit another's quota", ("limits",), (OTHERS, OWN), create_objects("ResourceQuota", quota)),
        Attempt(
            "edit limit ranges", ("limits",), (OTHERS, OWN), create_objects("LimitRange", {"spec": {"limits": []}})
        ),
        Attempt("edit another's ClusterQueue", writes, ("",), create_objects("ClusterQueue", queue, declared=False)),
        Attempt(
            "edit another's LocalQueue",
            writes,
            (OTHERS,),
            create_objects("LocalQueue", {"spec": {"clusterQueue": "q"}}),
        ),
        Attempt("edit another's NetworkPolicy", writes, (OTHERS,), create_objects("NetworkPolicy", policy)),
        Attempt("write a Lease of kube-system", writes, (SYSTEM,), create_objects("Lease", lease)),
        Attempt("PriorityClass", ("priorities",), ("",), create_objects("PriorityClass", {"value": 1000000})),
        Attempt(
            "another's StorageClass",
            writes,
            ("",),
            create_objects("StorageClass", {"provisioner": "a"}, declared=False),
        ),
        Attempt(
            "ServiceAccount of its own namespace",
            namespace_admin,
            (OWN,),
            create_objects("ServiceAccount", {}, declared=False),
        ),
        Attempt(
            "Service with externalIPs", ("external-ips",), (SYSTEM, OTHERS, OWN), create_objects("Service", service)
        ),
        Attempt("store a probe, which is for dry runs only", (), ("",), _store_probes, stores=True),
    ]


def _store_probes(person: Person, _: str) -> list[Request]:
    """Return requests without a dry run, all of which must be refused."""
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": probes.NAME}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": probes.NAME}}
    job["spec"] = {"pytorchReplicaSpecs": {"Master": {"template": {"spec": PRIVILEGED}}}}
    sent = create_requests(location("ResourceFlavor", ""), flavor)
    if "default" not in person.namespaces:
        sent += create_requests(location("PyTorchJob", "default"), job)
    return [replace(request, query=_without_dry(request)) for request in sent]


def _without_dry(request: Request) -> tuple[tuple[str, str], ...]:
    return tuple(parameter for parameter in request.query if parameter not in DRY_RUN)

"""Requests that try to exceed the rights of a role, and the users of the roles.

Writes are dry runs, which pass through authorization and admission.
"""

import base64
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from trainstack.platform.rbac.rights import API, Grant

Body = dict[str, Any]
OTHERS = "others"
"""A namespace outside all environments, without a Pod Security level."""
SYSTEM = "kube-system"
INTRUDER = "intruder"
"""A name that is in no role."""
EXISTING = "there"
"""The name of existing objects: a pod, Secret, ConfigMap, ServiceAccount and quota per namespace, and others."""
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
DRY_RUN = (("dryRun", "All"),)
ALL_RULES = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]


@dataclass(frozen=True)
class Person:
    """A user with one role."""

    user: str
    role: str
    namespaces: tuple[str, ...]
    """The namespaces for which the role is intended."""
    granted: frozenset[Grant]

    def names(self, group: str, resource: str, namespace: str = "") -> list[str]:
        """Return one name for each set of verbs that the role has on names of this kind, and a name not in the role."""
        verbs: dict[str, set[str]] = {}
        for grant in self.granted:
            if (grant.group, grant.resource) == (group, resource) and grant.namespace in ("", namespace) and grant.name:
                verbs.setdefault(grant.name, set()).add(grant.verb)
        by_verbs = {frozenset(held): name for name, held in sorted(verbs.items()) if held - {"get", "list", "watch"}}
        return [INTRUDER, *sorted(by_verbs.values())]

    def bindable(self, kind: str, namespace: str) -> list[str]:
        """Return the roles of a kind that the user may bind."""
        wanted = (f"{kind.lower()}s", "bind", namespace)
        return sorted({grant.name for grant in self.granted if (grant.resource, grant.verb, grant.namespace) == wanted})


@dataclass(frozen=True)
class Request:
    """One request."""

    verb: str
    path: str
    body: Body | None = None
    content_type: str = "application/json"
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()


MakeRequests = Callable[[Person, str], Iterable[Request]]

PRIVILEGED: Body = {
    "containers": [{"name": "c", "image": "i", "securityContext": {"privileged": True}}],
    "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
    "hostPID": True,
}
HARDENED: Body = {
    "containers": [
        {
            "name": "c",
            "image": "i",
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
    "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
}


KINDS: dict[str, tuple[str, str]] = {
    "ClusterRole": (f"{API}/v1", "clusterroles"),
    "ClusterRoleBinding": (f"{API}/v1", "clusterrolebindings"),
    "ClusterQueue": ("kueue.x-k8s.io/v1beta2", "clusterqueues"),
    "ConfigMap": ("v1", "configmaps"),
    "CronJob": ("batch/v1", "cronjobs"),
    "DaemonSet": ("apps/v1", "daemonsets"),
    "Deployment": ("apps/v1", "deployments"),
    "Job": ("batch/v1", "jobs"),
    "JobSet": ("jobset.x-k8s.io/v1alpha2", "jobsets"),
    "Lease": ("coordination.k8s.io/v1", "leases"),
    "LimitRange": ("v1", "limitranges"),
    "LocalQueue": ("kueue.x-k8s.io/v1beta2", "localqueues"),
    "MutatingWebhookConfiguration": ("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations"),
    "NetworkPolicy": ("networking.k8s.io/v1", "networkpolicies"),
    "PersistentVolume": ("v1", "persistentvolumes"),
    "Pod": ("v1", "pods"),
    "PriorityClass": ("scheduling.k8s.io/v1", "priorityclasses"),
    "PyTorchJob": ("kubeflow.org/v1", "pytorchjobs"),
    "ResourceFlavor": ("kueue.x-k8s.io/v1beta2", "resourceflavors"),
    "ResourceQuota": ("v1", "resourcequotas"),
    "Role": (f"{API}/v1", "roles"),
    "RoleBinding": (f"{API}/v1", "rolebindings"),
    "Secret": ("v1", "secrets"),
    "Service": ("v1", "services"),
    "ServiceAccount": ("v1", "serviceaccounts"),
    "StorageClass": ("storage.k8s.io/v1", "storageclasses"),
    "TrainJob": ("trainer.kubeflow.org/v1alpha1", "trainjobs"),
    "ValidatingWebhookConfiguration": ("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations"),
}
"""API versions and plurals."""
CUSTOM = {
    "ClusterQueue": False,
    "JobSet": True,
    "LocalQueue": True,
    "PyTorchJob": True,
    "ResourceFlavor": False,
    "TrainJob": True,
}
"""The custom kinds, and whether they are namespaced."""


def location(kind: str, namespace: str) -> str:
    """Return the path of a kind's collection."""
    version, plural = KINDS[kind]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def make_definition(group: str, plural: str, *, namespaced: bool, version: str = "v1", kind: str = "Made") -> Body:
    """Return the definition of a kind whose objects may have any field."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def make_certificate_request() -> Body:
    """Return a CertificateSigningRequest, which is pending until it is approved."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, INTRUDER)])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    spec = {
        "request": base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
    }
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": EXISTING},
        "spec": spec,
    }


def post(path: str, body: Body) -> Request:
    return Request("POST", path, body, query=DRY_RUN)


def apply(path: str, body: Body) -> Request:
    return Request("PATCH", path, body, APPLY, query=(*DRY_RUN, ("fieldManager", INTRUDER), ("force", "true")))


def patch(path: str, body: Body) -> Request:
    return Request("PATCH", path, body, MERGE, query=DRY_RUN)


def create_requests(collection: str, body: Body) -> list[Request]:
    """Create an object by POST and by apply: RBAC knows the name only in an apply."""
    return [post(collection, body), apply(f"{collection}/{body['metadata']['name']}", body)]


def read_requests(plural: str) -> MakeRequests:
    return lambda _, place: [
        Request("GET", f"/api/v1/namespaces/{place}/{plural}"),
        Request("GET", f"/api/v1/namespaces/{place}/{plural}/{EXISTING}"),
    ]


def delete_requests(root: str, plural: str) -> MakeRequests:
    return lambda _, place: [Request("DELETE", f"{root}/namespaces/{place}/{plural}/{EXISTING}", query=DRY_RUN)]


def create_objects(kind: str, body: Body | Callable[[Person], Body], *, declared: bool = True) -> MakeRequests:
    """Create objects of a kind with the names from `Person.names`; without `declared`, only with a name in no role."""

    def make_requests(person: Person, place: str) -> Iterator[Request]:
        version, plural = KINDS[kind]
        rest = body(person) if callable(body) else body
        names = person.names(version.rpartition("/")[0], plural, place) if declared else [INTRUDER]
        for name in names:
            yield from create_requests(
                location(kind, place), {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest}
            )

    return make_requests


def create_pod(spec: Body) -> MakeRequests:
    return create_objects("Pod", {"spec": spec})


def create_pod_controllers(spec: Body) -> MakeRequests:
    """Create objects whose controllers create pods."""
    labels = {"matchLabels": {"a": "b"}}
    template = {"metadata": {"labels": labels["matchLabels"]}, "spec": spec}
    ending = {"spec": {**spec, "restartPolicy": "Never"}}
    bodies: dict[str, Body] = {
        "CronJob": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": ending}}},
        "DaemonSet": {"selector": labels, "template": template},
        "Deployment": {"selector": labels, "template": template},
        "Job": {"template": ending},
        "JobSet": {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": ending}}}]},
        "PyTorchJob": {"pytorchReplicaSpecs": {"Master": {"template": template}}},
        "TrainJob": {"podTemplateOverrides": [{"spec": spec}]},
    }

    def make_requests(person: Person, place: str) -> Iterator[Request]:
        for kind, body in bodies.items():
            yield from create_objects(kind, {"spec": body})(person, place)

    return make_requests


def create_pod_and_controllers(spec: Body) -> MakeRequests:
    """Create a pod, directly and by controllers."""

    def make_requests(person: Person, place: str) -> Iterator[Request]:
        yield from create_pod(spec)(person, place)
        yield from create_pod_controllers(spec)(person, place)

    return make_requests

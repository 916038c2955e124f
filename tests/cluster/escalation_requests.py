"""Requests to an API server by which a role's reach is tried, and whose role it is.

Each is a dry run, which passes authorization and admission, but for those that store nothing of themselves.
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
"""A namespace of nobody's environment, without a Pod Security level."""
SYSTEM = "kube-system"
INTRUDER = "intruder"
"""A name that no role names."""
THERE = "there"
"""Of a pod, a Secret, a ConfigMap, a ServiceAccount and a quota in each namespace; and of other objects."""
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
DRY = (("dryRun", "All"),)
EVERYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]


@dataclass(frozen=True)
class Person:
    """Somebody who has one role."""

    user: str
    role: str
    namespaces: tuple[str, ...]
    """Where the role is meant to reach."""
    granted: frozenset[Grant]

    def names(self, group: str, resource: str, namespace: str = "") -> list[str]:
        """A name for each set of verbs that the role has on names of this kind, and one that it does not name."""
        verbs: dict[str, set[str]] = {}
        for each in self.granted:
            if (each.group, each.resource) == (group, resource) and each.namespace in ("", namespace) and each.name:
                verbs.setdefault(each.name, set()).add(each.verb)
        alike = {frozenset(held): name for name, held in sorted(verbs.items()) if held - {"get", "list", "watch"}}
        return [INTRUDER, *sorted(alike.values())]

    def bindable(self, kind: str, namespace: str) -> list[str]:
        """The roles of a kind that it may give away."""
        asked = (f"{kind.lower()}s", "bind", namespace)
        return sorted({each.name for each in self.granted if (each.resource, each.verb, each.namespace) == asked})


@dataclass(frozen=True)
class Request:
    """One request."""

    verb: str
    path: str
    body: Body | None = None
    content_type: str = "application/json"
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()


Tries = Callable[[Person, str], Iterable[Request]]

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
"""The kinds that an API server does not have of itself: whether their objects are in namespaces."""


def location(kind: str, namespace: str) -> str:
    """The path of a kind's list."""
    version, plural = KINDS[kind]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def make_definition(group: str, plural: str, *, namespaced: bool, version: str = "v1", kind: str = "Made") -> Body:
    """The definition of a kind whose objects may have any field."""
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
    """A request for a certificate, which waits for its approval."""
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
        "metadata": {"name": THERE},
        "spec": spec,
    }


def post(path: str, body: Body) -> Request:
    return Request("POST", path, body, query=DRY)


def apply(path: str, body: Body) -> Request:
    return Request("PATCH", path, body, APPLY, query=(*DRY, ("fieldManager", INTRUDER), ("force", "true")))


def patch(path: str, body: Body) -> Request:
    return Request("PATCH", path, body, MERGE, query=DRY)


def both(collection: str, body: Body) -> list[Request]:
    """Create an object in both ways: RBAC compares its name only where it is applied."""
    return [post(collection, body), apply(f"{collection}/{body['metadata']['name']}", body)]


def reading(plural: str) -> Tries:
    return lambda _, place: [
        Request("GET", f"/api/v1/namespaces/{place}/{plural}"),
        Request("GET", f"/api/v1/namespaces/{place}/{plural}/{THERE}"),
    ]


def deleting(root: str, plural: str) -> Tries:
    return lambda _, place: [Request("DELETE", f"{root}/namespaces/{place}/{plural}/{THERE}", query=DRY)]


def made(kind: str, body: Body | Callable[[Person], Body], *, declared: bool = True) -> Tries:
    """Create objects of a kind: one of a name that no role names, and of each name that this role names."""

    def tries(person: Person, place: str) -> Iterator[Request]:
        version, plural = KINDS[kind]
        rest = body(person) if callable(body) else body
        names = person.names(version.rpartition("/")[0], plural, place) if declared else [INTRUDER]
        for name in names:
            yield from both(
                location(kind, place), {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest}
            )

    return tries


def pod(spec: Body) -> Tries:
    return made("Pod", {"spec": spec})


def controllers(spec: Body) -> Tries:
    """Objects of which controllers make pods."""
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

    def tries(person: Person, place: str) -> Iterator[Request]:
        for kind, each in bodies.items():
            yield from made(kind, {"spec": each})(person, place)

    return tries


def any_pod(spec: Body) -> Tries:
    """A pod, or one by a controller."""

    def tries(person: Person, place: str) -> Iterator[Request]:
        yield from pod(spec)(person, place)
        yield from controllers(spec)(person, place)

    return tries

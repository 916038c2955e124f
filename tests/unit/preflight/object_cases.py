"""Environments with one fault in section `objects`."""

from typing import Any

from tests.unit.make import make_secret, make_settings
from tests.unit.preflight.cases import Case
from trainstack.settings.model import Settings
from trainstack.settings.sections.environment import Environment, Existing, Namespace
from trainstack.settings.sections.objects import Objects
from trainstack.settings.sections.secrets import Secrets

CLAIM_SPEC = {"accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "1Gi"}}}


def make_manifest_of(kind: str, name: str = "reader", version: str = "v1", **metadata: Any) -> dict[str, Any]:
    """Return an object of a kind, with these metadata beside its name."""
    spec = {"spec": CLAIM_SPEC} if kind == "PersistentVolumeClaim" else {}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}, **spec}


def declaring(*manifests: dict[str, Any], adopt: tuple[str, ...] = (), **sections: Any) -> Settings:
    """Return an environment with these objects."""
    return make_settings(objects=Objects(manifests=manifests, adopt=adopt), **sections)


_ACCOUNT = make_manifest_of("ServiceAccount")
_FIRST = "objects.manifests[0]"
OBJECT_CASES = {
    "object-other-section": [
        Case(
            declaring(make_manifest_of("PyTorchJob", version="kubeflow.org/v1", namespace="research")),
            f"{_FIRST}.kind",
            "PyTorchJob research/reader: objects takes no PyTorchJob",
            "declare it in section workloads, by `manifest:` of a workload, where it runs once",
        ),
        Case(
            declaring(make_manifest_of("Namespace")),
            f"{_FIRST}.kind",
            "Namespace reader: objects takes no Namespace",
            "declare it under environment.namespaces",
        ),
    ],
    "object-namespace-missing": [
        Case(
            declaring(
                _ACCOUNT,
                environment=Environment(
                    namespaces=(Namespace(name="research"),), existing=Existing(namespaces=("other",))
                ),
            ),
            f"{_FIRST}.metadata",
            "ServiceAccount reader names no namespace, and the environment has not exactly one",
            "add namespace",
        )
    ],
    "object-duplicate": [
        Case(
            declaring(_ACCOUNT, make_manifest_of("ServiceAccount", namespace="research")),
            "objects.manifests[1].metadata.name",
            "ServiceAccount research/reader is declared in section objects 2 times",
            "remove all but one",
        ),
        Case(
            declaring(make_manifest_of("Secret", "git"), secrets=Secrets(secrets=(make_secret(),))),
            f"{_FIRST}.metadata.name",
            "Secret research/git is declared in another section",
            "remove all but one",
        ),
    ],
    "object-reserved": [
        Case(
            declaring(make_manifest_of("ServiceAccount", labels={"trainstack.dev/stack": "dev"})),
            f'{_FIRST}.metadata.labels["trainstack.dev/stack"]',
            "trainstack.dev/stack is set by Trainstack",
            "remove it",
        ),
        Case(
            declaring(make_manifest_of("ServiceAccount", annotations={"trainstack.dev/retain": "false"})),
            f'{_FIRST}.metadata.annotations["trainstack.dev/retain"]',
            "trainstack.dev/retain is set by Trainstack",
            "remove it",
        ),
        Case(
            declaring(make_manifest_of("PersistentVolumeClaim", labels={"trainstack.dev/retain": "false"})),
            f'{_FIRST}.metadata.labels["trainstack.dev/retain"]',
            "trainstack.dev/retain is set by Trainstack",
            "remove it",
        ),
    ],
    "object-adoption-unknown": [
        Case(
            declaring(_ACCOUNT, adopt=("ServiceAccount research/reder",)),
            "objects.adopt[0]",
            "'ServiceAccount research/reder' is not declared in section objects",
            "did you mean ServiceAccount research/reader?",
        )
    ],
    "object-data-too-large": [
        Case(
            declaring(
                {
                    **make_manifest_of("ConfigMap"),
                    "data": {"a": "x" * (1 << 19)},
                    "binaryData": {"b": "x" * (1 << 19) + "y"},
                }
            ),
            _FIRST,
            "values of ConfigMap research/reader of 1,048,577 bytes; the limit is 1,048,576",
            "split it into several ConfigMaps, or put the files on a volume",
        )
    ],
    "namespace-unknown": [
        Case(
            declaring(make_manifest_of("ServiceAccount", namespace="reserch")),
            f"{_FIRST}.metadata.namespace",
            "namespace 'reserch' is not declared",
            "did you mean research? (or declare it under environment.namespaces)",
        )
    ],
}

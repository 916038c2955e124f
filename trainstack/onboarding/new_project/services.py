"""The differences between Kubernetes services: storage, contexts, registries."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Service:
    """A service that provides clusters."""

    title: str
    context: str = ""
    """The kubeconfig context; empty if its name depends on the cluster."""
    context_form: str
    """The form of the context's name, for a comment."""
    storage_class: str = ""
    """A class with ReadWriteOnce volumes; empty if none is known."""
    provisioner: str = ""
    """The provisioner with which an owner declares the class; empty if the service creates the class."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    shared: str
    """A sentence about volumes that pods on several nodes mount, for a comment."""
    images: str
    """A sentence about how the nodes get images, for a comment."""


SERVICES: Mapping[str, Service] = {
    "kind": Service(
        title="kind",
        context="kind-kind",
        context_form="kind-<cluster>",
        storage_class="standard",
        shared="The provisioner has no ReadWriteMany.",
        images="`kind load docker-image <image>` copies an image to the nodes.",
    ),
    "eks": Service(
        title="Amazon EKS",
        context_form="arn:aws:eks:<region>:<account>:cluster/<cluster>",
        storage_class="gp3",
        provisioner="ebs.csi.aws.com",
        parameters={"type": "gp3"},
        shared="For more nodes: a class of the EFS CSI driver, with ReadWriteMany.",
        images="<account>.dkr.ecr.<region>.amazonaws.com, which the nodes' role may read.",
    ),
    "gke": Service(
        title="Google GKE",
        context_form="gke_<project>_<location>_<cluster>",
        storage_class="standard-rwo",
        shared="For more nodes: standard-rwx (Filestore), with ReadWriteMany and 1Ti.",
        images="<region>-docker.pkg.dev/<project>/<repository>, which the nodes' account may read.",
    ),
    "aks": Service(
        title="Azure AKS",
        context_form="<cluster>",
        storage_class="managed-csi",
        shared="For more nodes: azurefile-csi, with ReadWriteMany.",
        images="<registry>.azurecr.io, attached by `az aks update --attach-acr <registry>`.",
    ),
    "other": Service(
        title="Kubernetes",
        context_form="see `kubectl config get-contexts`",
        shared="For more nodes: a class with ReadWriteMany.",
        images="A registry that the nodes can pull from.",
    ),
}

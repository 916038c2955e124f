"""The setup of a local cluster as one or more sites: node, images, operators, objects."""

import dataclasses
from collections.abc import Sequence

from trainstack.local_cluster.cluster import Cluster, Report
from trainstack.local_cluster.errors import ClusterError
from trainstack.local_cluster.images import ensure_images, helpers, operators
from trainstack.local_cluster.sites import images
from trainstack.local_cluster.sites.definition import load
from trainstack.local_cluster.sites.kubectl import Kubectl
from trainstack.local_cluster.sites.operators import install as install_operator
from trainstack.local_cluster.spec import ClusterSpec


def with_sites(spec: ClusterSpec, added: Sequence[str]) -> ClusterSpec:
    """Return a spec with more sites: with the greatest GPU count of a site, and the node folders of all.

    Raises LocalClusterError for an unknown site, and for sites that require different GPU products of the real node.
    """
    names = tuple(dict.fromkeys((*spec.sites, *added)))
    sites = [load(name) for name in names]
    products = {site.gpu_product: site.name for site in sites if site.gpu_product}
    if len(products) > 1:
        required = ", ".join(f"{name} requires {product}" for product, name in products.items())
        raise ClusterError(f"The real node has GPUs of one product, but {required}: use one cluster each (--state).")
    return dataclasses.replace(
        spec,
        sites=names,
        gpus=max((spec.gpus, *(site.gpus for site in sites))),
        gpu_product=next(iter(products), spec.gpu_product),
        node_folders=tuple(dict.fromkeys((*spec.node_folders, *(path for s in sites for path in s.node_folders)))),
    )


def install_sites(running: Cluster, names: Sequence[str], report: Report) -> None:
    """Push the sites' images, install their operators, and apply their objects. Safe to repeat."""
    sites = [load(name) for name in names]
    recipes = [recipe for site in sites for recipe in images.recipes(site)]
    ensure_images([*operators(), *helpers(), *recipes], running.registry, report)
    kubectl = Kubectl(running.kubeconfig)
    for site in sites:
        for name in site.operators:
            report(f"{site.name}: {name} (about 20 s unless it is installed)")
            install_operator(kubectl, name, site.operator_kind)
        if site.objects:
            kubectl.apply(site.objects)
        report(f"{site.name}: ready")

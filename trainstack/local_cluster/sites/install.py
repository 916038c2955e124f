"""The setup of a local cluster as one or more sites: node, images, operators, objects."""

import dataclasses
from collections.abc import Sequence

from trainstack.local_cluster.cluster import LocalCluster, Report
from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.images import ensure_images, helpers, operators
from trainstack.local_cluster.sites import images
from trainstack.local_cluster.sites.definition import load_site
from trainstack.local_cluster.sites.kubectl import Kubectl
from trainstack.local_cluster.sites.operators import install as install_operator
from trainstack.local_cluster.spec import ClusterSpec


def with_sites(spec: ClusterSpec, added_names: Sequence[str]) -> ClusterSpec:
    """Return a spec with more sites: with the greatest GPU count of a site, and the node folders of all.

    Raises LocalClusterError for an unknown site, and for sites that require different GPU products of the real node.
    """
    names = tuple(dict.fromkeys((*spec.sites, *added_names)))
    sites = [load_site(name) for name in names]
    products = {site.gpu_product: site.name for site in sites if site.gpu_product}
    if len(products) > 1:
        required = ", ".join(f"{name} requires {product}" for product, name in products.items())
        raise LocalClusterError(
            f"The real node has GPUs of one product, but {required}: use one cluster each (--state)."
        )
    return dataclasses.replace(
        spec,
        sites=names,
        gpus=max((spec.gpus, *(site.gpus for site in sites))),
        gpu_product=next(iter(products), spec.gpu_product),
        node_folders=tuple(
            dict.fromkeys((*spec.node_folders, *(path for site in sites for path in site.node_folders)))
        ),
    )


def install_sites(cluster: LocalCluster, names: Sequence[str], report: Report) -> None:
    """Push the sites' images, install their operators, and apply their objects. Safe to repeat."""
    sites = [load_site(name) for name in names]
    recipes = [recipe for site in sites for recipe in images.site_recipes(site)]
    ensure_images([*operators(), *helpers(), *recipes], cluster.registry, report)
    kubectl = Kubectl(cluster.kubeconfig)
    for site in sites:
        for name in site.operators:
            report(f"{site.name}: {name} (about 20 s unless it is installed)")
            install_operator(kubectl, name, site.operator_kind)
        if site.objects:
            kubectl.apply(site.objects)
        report(f"{site.name}: ready")

"""Make the local cluster a site: choices of its node, images, operators, objects."""

import dataclasses
from collections.abc import Sequence

from trainstack.dev.cluster.cluster import Cluster, Report
from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.cluster.images import ensure_images, helpers, operators
from trainstack.dev.cluster.sites import images
from trainstack.dev.cluster.sites.definition import Site, load
from trainstack.dev.cluster.sites.kubectl import Kubectl
from trainstack.dev.cluster.sites.operators import install as install_operator
from trainstack.dev.cluster.spec import ClusterSpec


def chosen(spec: ClusterSpec, added: Sequence[str]) -> ClusterSpec:
    """The choices of a cluster that is to be these sites too: the most GPUs of any, the folders of all.

    Raises ClusterError for a site that does not exist, and for two that want another product of the one real node.
    """
    names = tuple(dict.fromkeys((*spec.sites, *added)))
    sites = [load(name) for name in names]
    products = {site.gpu_product: site.name for site in sites if site.gpu_product}
    if len(products) > 1:
        wanted = ", ".join(f"{name} wants {product}" for product, name in products.items())
        raise ClusterError(f"The real node has GPUs of one product, but {wanted}: use a cluster for each (--state).")
    folders = tuple(dict.fromkeys((*spec.node_folders, *(each for site in sites for each in site.node_folders))))
    return dataclasses.replace(
        spec,
        sites=names,
        gpus=max(spec.gpus, *(site.gpus for site in sites)) if sites else spec.gpus,
        gpu_product=next(iter(products), spec.gpu_product),
        node_folders=folders,
    )


def install_sites(running: Cluster, names: Sequence[str], report: Report) -> None:
    """Serve the images of some sites, install their operators and apply their objects. Safe to repeat."""
    sites = [load(name) for name in names]
    recipes = [each for site in sites for each in images.recipes(site)]
    ensure_images([*operators(), *helpers(), *recipes], running.registry, report)
    kubectl = Kubectl(running.kubeconfig)
    for site in sites:
        _install(kubectl, site, report)


def _install(kubectl: Kubectl, site: Site, report: Report) -> None:
    for name in site.operators:
        report(f"{site.name}: {name} (about 20 s where it is not installed)")
        install_operator(kubectl, name, site.operator_kind)
    if site.objects:
        kubectl.apply(site.objects)
    report(f"{site.name}: ready")

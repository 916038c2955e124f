"""GPU shares of extended resources: a whole GPU is 1, a MIG slice is its fraction of the compute slices.

Source: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/ (profiles of each product) and, for the names of
resources and node labels, https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-mig.html
"""

import re
from collections.abc import Mapping
from fractions import Fraction

GPU_PRODUCT_LABEL = "nvidia.com/gpu.product"
"""Node label with the GPU's product. Under MIG's single strategy its value ends in the profile: `…-MIG-1g.5gb`."""
_MIG_PROFILE = re.compile(r"(?:(?P<part>\d+)c\.)?(?P<slices>\d+)g\.(?P<memory>\d+)gb(?:[.+].*)?")
_MIG_RESOURCE_PREFIX = "nvidia.com/mig-"
"""Prefix of resource names under MIG's mixed strategy; the profile follows."""
_FOUR_SLICE_PRODUCTS = re.compile(r"(?:^|-)A30(?:-|$)|RTX-PRO")
"""Products with 4 compute slices; all others have 7."""


def gpu_share(resource: str, node_labels: Mapping[str, str]) -> Fraction:
    """Return the GPUs in one unit of a resource (`nvidia.com/gpu`, `nvidia.com/mig-1g.5gb`); 0 for other resources.

    A MIG slice counts by its compute slices: `1g.5gb` is 1/7 of an A100, `2g.12gb` is 2/4 of an A30. A time-shared GPU
    counts as a whole one. `node_labels`: labels of the nodes, as far as they are known.
    """
    product = node_labels.get(GPU_PRODUCT_LABEL, "")
    if resource.startswith(_MIG_RESOURCE_PREFIX):
        return _profile_share(resource.removeprefix(_MIG_RESOURCE_PREFIX), product)
    if resource.rpartition("/")[2] != "gpu":
        return Fraction(0)
    whole_product, separator, profile = product.partition("-MIG-")
    return _profile_share(profile, whole_product) if separator else Fraction(1)


def _profile_share(profile: str, product: str) -> Fraction:
    """Return the share of a MIG profile, or of the compute instance in it; 1 for text that is not a profile."""
    match = _MIG_PROFILE.fullmatch(profile)
    if match is None:
        return Fraction(1)
    slices, memory = int(match["slices"]), int(match["memory"])
    # The product may be unknown. Only an A30 has 6 GB of memory per slice.
    total_slices = 4 if _FOUR_SLICE_PRODUCTS.search(product) or memory == 6 * slices else 7
    return Fraction(int(match["part"] or slices), total_slices)

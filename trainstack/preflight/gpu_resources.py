"""How much of a GPU a piece of a resource is: a whole one, or a slice by its share of the compute.

Source: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/ (profiles of each product) and, for the names of
resources and node labels, https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-mig.html
"""

import re
from collections.abc import Mapping
from fractions import Fraction

PRODUCT = "nvidia.com/gpu.product"
"""Node label with the GPU's product; with MIG's single strategy it ends in the profile: `…-MIG-1g.5gb`."""
_PROFILE = re.compile(r"(?:(?P<part>\d+)c\.)?(?P<slices>\d+)g\.(?P<memory>\d+)gb(?:[.+].*)?")
_MIXED = "nvidia.com/mig-"
"""Begins the resources of MIG's mixed strategy; the profile follows."""
_OF_FOUR = re.compile(r"(?:^|-)A30(?:-|$)|RTX-PRO")
"""Products with 4 slices of compute. All others have 7."""


def share(resource: str, labels: Mapping[str, str]) -> Fraction:
    """How much of a GPU one piece of the resource is; 0 of what is none.

    A slice of MIG counts by its slices of compute: `1g.5gb` is 1/7 of an A100, `2g.12gb` 2/4 of an A30. A GPU that is
    shared in time counts as a whole one.

    Args:
        resource: `nvidia.com/gpu`, `amd.com/gpu`, `nvidia.com/mig-1g.5gb`, or any other.
        labels: of the nodes that it stands on, as far as they are known.

    """
    product = labels.get(PRODUCT, "")
    if resource.startswith(_MIXED):
        return _slice(resource.removeprefix(_MIXED), product)
    if resource.rpartition("/")[2] != "gpu":
        return Fraction(0)
    whole, mig, profile = product.partition("-MIG-")
    return _slice(profile, whole) if mig else Fraction(1)


def _slice(profile: str, product: str) -> Fraction:
    """The share of a profile: of its compute instance where it names one. Counts as a whole where it is no profile."""
    match = _PROFILE.fullmatch(profile)
    if match is None:
        return Fraction(1)
    slices, memory = int(match["slices"]), int(match["memory"])
    # Without a product: slices of 6 GB are those of an A30 alone.
    of = 4 if _OF_FOUR.search(product) or memory == 6 * slices else 7
    return Fraction(int(match["part"] or slices), of)

"""The share of a GPU that a unit of a resource is."""

from fractions import Fraction

import pytest

from trainstack.preflight.gpu_resources import GPU_PRODUCT_LABEL, gpu_share


@pytest.mark.parametrize(
    ("resource", "product", "expected"),
    [
        ("nvidia.com/gpu", "", "1"),
        ("nvidia.com/gpu", "NVIDIA-A100-SXM4-40GB", "1"),
        ("amd.com/gpu", "", "1"),
        ("cpu", "NVIDIA-A100-SXM4-40GB", "0"),
        ("memory", "", "0"),
        # The single strategy slices all GPUs of a node in the same way: the product label has the profile.
        ("nvidia.com/gpu", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "1/7"),
        ("nvidia.com/gpu", "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb", "3/7"),
        ("nvidia.com/gpu", "NVIDIA-H100-80GB-HBM3-MIG-1g.20gb", "1/7"),
        ("nvidia.com/gpu", "NVIDIA-H100-80GB-HBM3-MIG-7g.80gb", "1"),
        ("nvidia.com/gpu", "NVIDIA-A100-SXM4-40GB-MIG-1c.3g.20gb", "1/7"),
        ("nvidia.com/gpu", "NVIDIA-A30-MIG-2g.12gb", "1/2"),
        ("nvidia.com/gpu", "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition-MIG-1g.24gb", "1/4"),
        # The mixed strategy: the name of the resource has the profile.
        ("nvidia.com/mig-1g.5gb", "NVIDIA-A100-SXM4-40GB", "1/7"),
        ("nvidia.com/mig-1g.5gb.me", "NVIDIA-A100-SXM4-40GB", "1/7"),
        ("nvidia.com/mig-1c.2g.10gb", "", "1/7"),
        ("nvidia.com/mig-1g.24gb", "NVIDIA-H100-96GB", "1/7"),
        ("nvidia.com/mig-1g.6gb", "", "1/4"),
        ("nvidia.com/mig-4g.24gb", "NVIDIA-A30", "1"),
        # An unknown profile counts as a whole GPU.
        ("nvidia.com/mig-new", "", "1"),
        ("nvidia.com/gpu", "Tesla-T4-SHARED", "1"),
    ],
)
def test_a_slice_counts_by_its_share_of_the_compute(resource: str, product: str, expected: str) -> None:
    """Both of NVIDIA's strategies are read; a resource that is not a GPU counts as 0."""
    assert gpu_share(resource, {GPU_PRODUCT_LABEL: product} if product else {}) == Fraction(expected)

"""A cluster's choices."""

import pytest

from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.cluster.spec import ClusterSpec


def test_a_spec_survives_its_file() -> None:
    """What is written is read back, whatever other versions wrote beside it."""
    spec = ClusterSpec(
        gpus=4, simulated_nodes=3, registry="/images", node_folders=("/mnt/a",), sites=("eidf", "traindb")
    )
    assert ClusterSpec.from_json(spec.to_json()) == spec
    assert ClusterSpec.from_json('{"gpus": 2, "of_another_version": true}') == ClusterSpec(gpus=2)


def test_differences_name_each_changed_choice() -> None:
    """A person reads what would change."""
    assert ClusterSpec().differences(ClusterSpec(gpus=4, max_pods=10)) == ["gpus: 0 → 4", "max_pods: 250 → 10"]
    assert ClusterSpec().differences(ClusterSpec(sites=("eidf",))) == ["sites: none → eidf"]
    assert ClusterSpec().differences(ClusterSpec()) == []


def test_live_choices_are_taken_over_and_the_others_stay() -> None:
    """GPUs, folders and sites: what is left between the two needs a restart."""
    running = ClusterSpec(max_pods=100)
    wanted = ClusterSpec(gpus=2, gpu_product="A", node_folders=("/mnt/a",), sites=("eidf",))
    assert running.with_live(wanted).differences(wanted) == ["max_pods: 100 → 250"]


@pytest.mark.parametrize("folder", ["models", "/models", "/mnt/../x", "/mnt/a/", "/var/lib", "/run/a", "/etc/a"])
def test_folders_that_the_cluster_or_the_machine_needs_are_refused(folder: str) -> None:
    """Each is named, with why."""
    with pytest.raises(ClusterError, match=f"node_folders has '{folder}'; .* (absolute path|own)"):
        ClusterSpec(node_folders=(folder,))


def test_impossible_choices_are_refused_together() -> None:
    """All faults at once, each with its limit."""
    with pytest.raises(
        ClusterError, match=r"gpus is -1; it must be from 0 to 64; registry is 'here'; it must be an abs"
    ):
        ClusterSpec(gpus=-1, registry="here")

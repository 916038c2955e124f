"""The options of a cluster."""

import pytest

from trainstack.local_cluster.errors import LocalClusterError
from trainstack.local_cluster.spec import ClusterSpec


def test_a_spec_survives_its_file() -> None:
    """The spec is read back unchanged; options of other versions in the file are ignored."""
    spec = ClusterSpec(
        gpus=4, simulated_nodes=3, registry="/images", node_folders=("/mnt/a",), sites=("eidf", "traindb")
    )
    assert ClusterSpec.from_json(spec.to_json()) == spec
    assert ClusterSpec.from_json('{"gpus": 2, "of_another_version": true}') == ClusterSpec(gpus=2)


def test_differences_name_each_changed_choice() -> None:
    """Users read what would change."""
    assert ClusterSpec().differences(ClusterSpec(gpus=4, max_pods=10)) == ["gpus: 0 → 4", "max_pods: 250 → 10"]
    assert ClusterSpec().differences(ClusterSpec(sites=("eidf",))) == ["sites: none → eidf"]
    assert ClusterSpec().differences(ClusterSpec()) == []


def test_live_choices_are_taken_over_and_the_others_stay() -> None:
    """GPUs, folders and sites change live; other differences need a restart."""
    running = ClusterSpec(max_pods=100)
    requested = ClusterSpec(gpus=2, gpu_product="A", node_folders=("/mnt/a",), sites=("eidf",))
    assert running.with_live_settings(requested).differences(requested) == ["max_pods: 100 → 250"]


@pytest.mark.parametrize("folder", ["models", "/models", "/mnt/../x", "/mnt/a/", "/var/lib", "/run/a", "/etc/a"])
def test_folders_that_the_cluster_or_the_machine_needs_are_refused(folder: str) -> None:
    """Each is listed with the reason."""
    with pytest.raises(LocalClusterError, match=f"node_folders has '{folder}'; .* (absolute path|own)"):
        ClusterSpec(node_folders=(folder,))


def test_impossible_choices_are_refused_together() -> None:
    """All faults are listed, each with its limit."""
    with pytest.raises(
        LocalClusterError, match=r"gpus is -1; it must be from 0 to 64; registry is 'here'; it must be an abs"
    ):
        ClusterSpec(gpus=-1, registry="here")

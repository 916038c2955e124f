"""`destroy --keep-platform` retains the objects that it names, and the next `up` finds the trained runs."""

import json
import shutil

import pytest

from tests.cluster.inventory import ObjectKey, assert_only_retained, digests, training_files
from tests.cluster.lab import outputs
from tests.cluster.project import Project
from trainstack.local_cluster.cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.last, pytest.mark.usefixtures("no_lab")]


def test_destroy_retains_the_objects_that_it_names(
    dev: Project, cluster: LocalCluster, before: frozenset[ObjectKey]
) -> None:
    """These are volumes and definitions; no byte of the data changes."""
    retained = outputs(dev)["retained"]
    data = digests(cluster.state)
    assert any(name.endswith("_SUCCESS") for name in data)
    done = dev.trainstack("destroy", "--keep-platform", "--yes")
    assert done.code == 0, done.text
    kept = {line.split(": ")[1] for line in done.out.splitlines() if line.startswith("kept: ")}
    assert kept == {line.partition(": ")[0] for line in retained}
    assert_only_retained(dev, before, retained)
    assert digests(cluster.state) == data


@pytest.mark.slow
def test_up_after_destroy_finds_the_trained_run(
    dev: Project, cluster: LocalCluster, before: frozenset[ObjectKey]
) -> None:
    """It adopts the retained objects, fetches the record and trains nothing; `pulumi destroy` retains the data too."""
    data = training_files(digests(cluster.state))
    done = dev.trainstack("destroy", "--keep-platform", "--yes")
    assert done.code == 0, done.text

    shutil.rmtree(dev.root / "results")
    again = dev.trainstack("up", "--yes", seconds=420)
    assert again.code == 0, again.text
    (record,) = (dev.root / "results").iterdir()
    assert json.loads((record / "run.json").read_text())["attempts"] == 1
    assert training_files(digests(cluster.state)) == data
    assert dev.changes("--refresh") == {}

    # Its hooks make it a teardown, which deletes the definitions, since no other stack has objects of their kinds.
    retained = [line for line in outputs(dev)["retained"] if not line.startswith("CustomResourceDefinition")]
    plain = dev.pulumi("destroy", "--yes", "--skip-preview", "--run-program")
    assert plain.code == 0, plain.text
    assert_only_retained(dev, before, retained)
    assert training_files(digests(cluster.state)) == data

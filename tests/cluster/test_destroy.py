"""Back to a cluster without us: `destroy --keep-platform` leaves what it names, and what was trained is found again."""

import json
import shutil
from typing import Any

import pytest

from tests.cluster.inventory import Name, digests, only_stays, trained
from tests.cluster.project import Project
from trainstack.dev.cluster.cluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.last, pytest.mark.usefixtures("no_lab")]


def test_destroy_leaves_what_it_names(dev: Project, cluster: Cluster, before: frozenset[Name]) -> None:
    """Volumes and definitions, and nothing else of ours; no byte of the data is touched."""
    retained = outputs(dev)["retained"]
    data = digests(cluster.state)
    assert any(name.endswith("_SUCCESS") for name in data)
    done = dev.trainstack("destroy", "--keep-platform", "--yes")
    assert done.code == 0, done.text
    kept = {line.split(": ")[1] for line in done.out.splitlines() if line.startswith("kept: ")}
    assert kept == {each.partition(": ")[0] for each in retained}
    only_stays(dev, before, retained)
    assert digests(cluster.state) == data


@pytest.mark.slow
def test_up_after_destroy_finds_the_trained_run(dev: Project, cluster: Cluster, before: frozenset[Name]) -> None:
    """It takes over what stayed, fetches the record and trains nothing anew; plain `pulumi destroy` keeps data too."""
    data = trained(digests(cluster.state))
    done = dev.trainstack("destroy", "--keep-platform", "--yes")
    assert done.code == 0, done.text

    shutil.rmtree(dev.root / "results")
    again = dev.trainstack("up", "--yes", seconds=420)
    assert again.code == 0, again.text
    (record,) = (dev.root / "results").iterdir()
    assert json.loads((record / "run.json").read_text())["attempts"] == 1
    assert trained(digests(cluster.state)) == data
    assert dev.changes("--refresh") == {}

    # By its hooks it is a teardown: nobody else has objects of the operators' kinds.
    retained = [each for each in outputs(dev)["retained"] if not each.startswith("CustomResourceDefinition")]
    plain = dev.pulumi("destroy", "--yes", "--skip-preview", "--run-program")
    assert plain.code == 0, plain.text
    only_stays(dev, before, retained)
    assert trained(digests(cluster.state)) == data


def outputs(project: Project) -> dict[str, Any]:
    """The stack's outputs."""
    return dict(json.loads(project.pulumi("stack", "output", "--json").out))

"""Images by digest, and a volume that is protected, on a live cluster."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
import yaml

from tests.cluster.lab import (
    MOUNT,
    NAMESPACE,
    Config,
    await_pods,
    bare,
    launches,
    quiet,
    run_id,
    team_config,
    uid,
    uids,
    volume,
)
from tests.cluster.project import Project
from trainstack.dev.cluster.cluster import Cluster
from trainstack.dev.cluster.images import Registry, ensure_images, helpers
from trainstack.runs.images.references import target

pytestmark = pytest.mark.cluster

IMAGE = "registry.example.org/pins/moving:1"
WAITS = ["sh", "-c", f"trap 'exit 143' TERM; until [ -e {MOUNT}/go ]; do sleep 0.1; done"]


def environment(platform: str) -> Config:
    """A team that wants digests, with a run of an image by name, one of an image built here, a protected volume."""
    config = team_config(
        platform,
        bare("named", image={"name": IMAGE}, command=WAITS),
        bare("built", image={"build": "workloads/digits"}, command=WAITS),
    )
    config["trainstack:environment"]["pinned"] = True
    config["trainstack:storage"] = {"volumes": [{**volume("lab"), "protect": True}]}
    return config


def serve(cluster: Cluster, helper: int) -> str:
    """Have the tag name one of the two small images; its digest now."""
    ensure_images([replace(helpers()[helper], serve_as=(IMAGE,))], cluster.registry, lambda _: None)
    digest = Registry(cluster.registry).digest(target(IMAGE))
    assert digest is not None
    return digest


def test_runs_are_of_the_images_that_were_pinned_and_protected_volumes_stay(lab: Project, cluster: Cluster) -> None:
    """A tag that moves is told and touches no run; a destroy is refused as a whole, by the volume's name."""
    digest = serve(cluster, 0)
    project = lab.other("pinned", environment(lab.stack))
    try:
        refused_without_pins(project)
        done = project.trainstack("pin")
        assert done.code == 0, done.text
        done = project.up()
        assert done.code == 0, done.text
        assert running(project, "named") == f"{IMAGE}@{digest}"
        same_run_without_pins(project)
        moved(project, digest, serve(cluster, 1))
        destroy_is_refused(project)
    finally:
        project.edit_stack(lambda config: config["trainstack:storage"]["volumes"][0].update(protect=False))
        done = project.up()
        project.take_down()
    assert done.code == 0, done.text
    assert project.get("pvc", "lab", NAMESPACE) == {}


def refused_without_pins(project: Project) -> None:
    """Nothing is launched; each image is told, with the command that mends it."""
    done = project.up()
    assert done.code != 0
    for image in (IMAGE, "busybox:1.35"):
        assert f"image {image} has no digest, and pins/pinned.yaml does not pin it" in done.text
    assert "run `trainstack pin -s pinned`" in done.text
    assert launches(project) == []


def running(project: Project, name: str) -> str:
    """The image that the container of a workload's running pod was asked for."""
    (pod,) = await_pods(project, name, 1)
    (container,) = pod["spec"]["containers"]
    (status,) = pod["status"]["containerStatuses"]
    assert status["imageID"].endswith(container["image"].partition("@")[2])
    return str(container["image"])


def same_run_without_pins(project: Project) -> None:
    """The image that is built here is by digest too, and its run is the one that it was without."""
    name, _, digest = running(project, "built").partition("@")
    assert pins(project)[name] == digest
    pinned = by_workload(launches(project))
    file = project.root / "pins" / "pinned.yaml"
    text = file.read_text()
    file.unlink()
    rendered = yaml.safe_load_all(project.trainstack("render").out)
    file.write_text(text)
    plain = by_workload(body for body in rendered if body["kind"] == "Job")
    assert plain["built"] == pinned["built"]
    assert plain["named"] != pinned["named"]


def moved(project: Project, old: str, new: str) -> None:
    """The tag names other content: `--check` says so, a further `up` changes nothing, what runs is what was pinned."""
    before = pins(project)
    done = project.trainstack("pin", "--check")
    assert done.code == 4
    assert f"{IMAGE}  {new} (was {old})" in done.text
    assert "pins/pinned.yaml: 1 moved; run `trainstack pin -s pinned`" in done.text
    assert pins(project) == before
    quiet(project)
    assert running(project, "named") == f"{IMAGE}@{old}"


def destroy_is_refused(project: Project) -> None:
    """By our command and by plain `pulumi destroy`: the volume is named, and not one object is gone."""
    claim, before = uid(project.get("pvc", "lab", NAMESPACE)), uids(project)
    done = project.trainstack("destroy", "--keep-platform", "--yes")
    assert done.code == 3
    assert f"PersistentVolumeClaim {NAMESPACE}/lab is protected, so nothing is deleted" in done.text
    done = project.pulumi("destroy", "--yes", "--skip-preview", "--run-program")
    assert done.code != 0
    assert f"{NAMESPACE}/lab" in done.text
    assert "protected" in done.text
    assert (uid(project.get("pvc", "lab", NAMESPACE)), uids(project)) == (claim, before)


def by_workload(bodies: Iterable[dict[str, Any]]) -> dict[str, str]:
    """The run of each workload's launch."""
    return {body["metadata"]["labels"]["trainstack.dev/workload"]: run_id(body) for body in bodies}


def pins(project: Project) -> dict[str, Any]:
    """What the lock file says."""
    return dict(yaml.safe_load((project.root / "pins" / "pinned.yaml").read_text()))

"""Images pinned by digest, and a protected volume, on a live cluster."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
import yaml

from tests.cluster.lab import (
    MOUNT,
    NAMESPACE,
    Config,
    assert_no_changes,
    await_pods,
    launches,
    run_id,
    team_config,
    uid,
    uids,
    unmanaged_run,
    volume,
)
from tests.cluster.project import Project
from trainstack.local_cluster.cluster import LocalCluster
from trainstack.local_cluster.images import Registry, ensure_images, helpers
from trainstack.runs.images.references import mirror_reference

pytestmark = pytest.mark.cluster

IMAGE = "registry.example.org/pins/moving:1"
WAITS = ["sh", "-c", f"trap 'exit 143' TERM; until [ -e {MOUNT}/go ]; do sleep 0.1; done"]


def environment(platform: str) -> Config:
    """Return a team that requires digests, with runs of a named image and of one built here, and a protected volume."""
    config = team_config(
        platform,
        unmanaged_run("named", image={"name": IMAGE}, command=WAITS),
        unmanaged_run("built", image={"build": "workloads/digits"}, command=WAITS),
    )
    config["trainstack:environment"]["pinned"] = True
    config["trainstack:storage"] = {"volumes": [{**volume("lab"), "protect": True}]}
    return config


def serve(cluster: LocalCluster, helper: int) -> str:
    """Point the tag to one of the two small images, and return its digest."""
    ensure_images([replace(helpers()[helper], serve_as=(IMAGE,))], cluster.registry, lambda _: None)
    digest = Registry(cluster.registry).digest(mirror_reference(IMAGE))
    assert digest is not None
    return digest


def test_runs_use_pinned_images_and_protected_volumes_are_kept(lab: Project, cluster: LocalCluster) -> None:
    """A moved tag is reported and changes no run. A destroy is refused as a whole, with the volume's name."""
    digest = serve(cluster, 0)
    project = lab.other_stack("pinned", environment(lab.stack))
    try:
        assert_refused_without_pins(project)
        done = project.trainstack("pin")
        assert done.code == 0, done.text
        done = project.up()
        assert done.code == 0, done.text
        assert running_image(project, "named") == f"{IMAGE}@{digest}"
        assert_same_run_without_pins(project)
        assert_moved_tag_reported(project, digest, serve(cluster, 1))
        assert_destroy_refused(project)
    finally:
        project.edit_stack(lambda config: config["trainstack:storage"]["volumes"][0].update(protect=False))
        done = project.up()
        project.take_down()
    assert done.code == 0, done.text
    assert project.get("pvc", "lab", NAMESPACE) == {}


def assert_refused_without_pins(project: Project) -> None:
    """Assert that nothing is launched, and that the error names each image and the command that pins it."""
    done = project.up()
    assert done.code != 0
    for image in (IMAGE, "busybox:1.35"):
        assert f"image {image} has no digest, and pins/pinned.yaml does not pin it" in done.text
    assert "run `trainstack pin -s pinned`" in done.text
    assert launches(project) == []


def running_image(project: Project, name: str) -> str:
    """Return the image in the spec of a workload's running pod."""
    (pod,) = await_pods(project, name, 1)
    (container,) = pod["spec"]["containers"]
    (status,) = pod["status"]["containerStatuses"]
    assert status["imageID"].endswith(container["image"].partition("@")[2])
    return str(container["image"])


def assert_same_run_without_pins(project: Project) -> None:
    """Assert that the image built here has a digest too, and that its run is the same without pins."""
    name, _, digest = running_image(project, "built").partition("@")
    assert pins(project)[name] == digest
    pinned = run_ids_by_workload(launches(project))
    file = project.root / "pins" / "pinned.yaml"
    text = file.read_text()
    file.unlink()
    rendered = yaml.safe_load_all(project.trainstack("render").out)
    file.write_text(text)
    plain = run_ids_by_workload(body for body in rendered if body["kind"] == "Job")
    assert plain["built"] == pinned["built"]
    assert plain["named"] != pinned["named"]


def assert_moved_tag_reported(project: Project, old: str, new: str) -> None:
    """Assert that `--check` reports the moved tag, and that a further `up` keeps the run with the pinned image."""
    before = pins(project)
    done = project.trainstack("pin", "--check")
    assert done.code == 4
    assert f"{IMAGE}  {new} (was {old})" in done.text
    assert "pins/pinned.yaml: 1 moved; run `trainstack pin -s pinned`" in done.text
    assert pins(project) == before
    assert_no_changes(project)
    assert running_image(project, "named") == f"{IMAGE}@{old}"


def assert_destroy_refused(project: Project) -> None:
    """Assert that `trainstack destroy` and `pulumi destroy` name the volume and delete nothing."""
    claim, before = uid(project.get("pvc", "lab", NAMESPACE)), uids(project)
    done = project.trainstack("destroy", "--keep-platform", "--yes")
    assert done.code == 3
    assert f"PersistentVolumeClaim {NAMESPACE}/lab is protected, so nothing is deleted" in done.text
    done = project.pulumi("destroy", "--yes", "--skip-preview", "--run-program")
    assert done.code != 0
    assert f"{NAMESPACE}/lab" in done.text
    assert "protected" in done.text
    assert (uid(project.get("pvc", "lab", NAMESPACE)), uids(project)) == (claim, before)


def run_ids_by_workload(bodies: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the run id of each workload's launch."""
    return {body["metadata"]["labels"]["trainstack.dev/workload"]: run_id(body) for body in bodies}


def pins(project: Project) -> dict[str, Any]:
    """Return the content of the lock file."""
    return dict(yaml.safe_load((project.root / "pins" / "pinned.yaml").read_text()))

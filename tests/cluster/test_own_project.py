"""The pages of the owner and the researcher (docs/start) in separate repositories, with the wheel only."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.page import Page
from tests.cluster.project import ROOT, Project
from tests.start_pages import PAGES, Edit, Line, steps
from tests.wheel import add_bytecode, build
from trainstack.runs.images.content_tags import workload_reference

pytestmark = pytest.mark.cluster

INSTALL = "pipx install ./trainstack-0.1.0-py3-none-any.whl"
DELETION = "kubectl delete pvc training -n vision"
"""The researcher's page deletes the volume with it; before that, the owner's `destroy` is refused."""
CLASS = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: rancher.io/local-path-node
volumeBindingMode: WaitForFirstConsumer
"""
"""The StorageClass of kind."""
COMMAND = f"""#!/bin/sh
exec {ROOT}/.venv/bin/python -m trainstack.cli "$@"
"""


@pytest.fixture
def programs(tmp_path: Path) -> dict[str, str]:
    """Return variables that make `trainstack` the wheel's command."""
    site = build(tmp_path / "wheel").site
    add_bytecode(site)
    program = tmp_path / "bin" / "trainstack"
    program.parent.mkdir()
    program.write_text(COMMAND)
    program.chmod(0o755)
    return {"PYTHONPATH": str(site), "PATH": f"{program.parent}:/usr/bin:/bin:/usr/sbin:/sbin"}


@pytest.fixture
def kubeconfig(dev: Project, tmp_path: Path) -> Iterator[Path]:
    """Yield a kubeconfig like kind's, for a cluster that has Kueue and kind's StorageClass."""
    content = yaml.safe_load(dev.kubeconfig.read_text())
    (context,) = content["contexts"]
    context["name"] = content["current-context"] = "kind-kind"
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(content))
    done = dev.kubectl("apply", stdin=CLASS)
    assert done.code == 0, done.text
    yield tmp_path / "kubeconfig"
    names = ("namespace/training", "namespace/vision", "storageclass/standard")
    done = dev.kubectl("delete", *names, "--ignore-not-found", "--timeout=60s")
    assert done.code == 0, done.text


class Reader:
    """A user with a repository who follows a page and confirms prompts."""

    def __init__(self, page: str, project: Project, programs: dict[str, str]) -> None:
        self.root = project.root
        self._steps = list(steps(page))
        self._page = Page(project, Path())
        self._programs = programs
        subprocess.run(["git", "init", "--quiet", str(project.root)], check=True)

    def follow(self, end: str = "") -> str:
        """Do the steps up to the line that starts with `end`, or all remaining ones; return the last one's output."""
        text = ""
        while self._steps:
            step = self._steps.pop(0)
            if isinstance(step, Edit):
                step.apply(self.root)
            elif "--cluster" in step.text and step.text.startswith("trainstack check"):
                # The registries of these images are not reachable here; no other error may occur.
                text = self._page.type(f"{step.text} || test $? = 4", variables=self._programs).text
                errors = [line for line in text.splitlines() if line.startswith("error ")]
                assert [error for error in errors if "[registry-unreachable]" not in error] == []
            elif step.text != INSTALL:
                text = self._page.type(step.text, variables=self._programs).text
            self._use_image()
            self._leave_out_priority_classes()
            if isinstance(step, Line) and end and step.text.startswith(end):
                return text
        assert not end, f"the page has no line {end}"
        return text

    def results(self) -> list[Path]:
        """Return the result files that the runs have published."""
        return sorted(self.root.glob("results/hello-*/result/[!.]*"))

    def _use_image(self) -> None:
        """Replace the image with one with Python that this cluster's registry has."""
        file = self.root / "workloads" / "hello" / "workload.yaml"
        if file.is_file():
            image = workload_reference(ROOT / "workloads" / "digits")
            file.write_text(file.read_text().replace("python:3.13-slim", image))

    def _leave_out_priority_classes(self) -> None:
        """Remove the declared classes: another stack of this cluster has those names."""
        file = self.root / "Pulumi.platform.yaml"
        environment = yaml.safe_load(file.read_text()) if file.is_file() else {"config": {}}
        if environment["config"].get("trainstack:queues", {}).pop("priorityClasses", None):
            file.write_text(yaml.safe_dump(environment, sort_keys=False))


def test_an_owner_and_a_researcher_follow_their_pages(
    kubeconfig: Path, programs: dict[str, str], dev: Project, tmp_path: Path
) -> None:
    """A team trains twice on the owner's platform, from a repository of its own; then both remove everything."""
    owner = Reader("owner", Project(tmp_path / "owner", kubeconfig, "platform"), programs)
    researcher = Reader("researcher", Project(tmp_path / "researcher", kubeconfig, "vision"), programs)
    before = namespaces(dev)
    assert "hello" in owner.follow("trainstack status")
    (result,) = owner.results()
    assert json.loads(result.read_text()) == {"epochs": 5}
    owner.follow("trainstack init --upgrade")
    assert namespaces(dev) - before == {"training", "vision"}

    researcher.follow("trainstack up")
    assert [file.name for file in researcher.results()] == ["result.json"]
    researcher.follow("trainstack up")
    assert "succeeded" in researcher.follow("trainstack status")
    researcher.follow("trainstack fetch")
    assert sorted(file.name for file in researcher.results()) == ["model.pt", "result.json"]
    assert not (researcher.root / "trainstack").exists()
    researcher.follow()
    assert claim_namespaces(dev) == {"training", "vision"}
    assert f"`{DELETION}`" in (PAGES / "researcher.md").read_text()
    done = dev.run(DELETION.split())
    assert done.code == 0, done.text

    owner.follow()
    assert claim_namespaces(dev) == {"training"}
    assert dev.get("clusterqueue", "training") == dev.get("clusterqueue", "vision") == {}


def namespaces(dev: Project) -> set[str]:
    return {namespace["metadata"]["name"] for namespace in dev.get("namespaces")["items"]}


def claim_namespaces(dev: Project) -> set[str]:
    """Return the namespaces that have a claim of class `standard`."""
    found = dev.get("persistentvolumeclaims")["items"]
    return {claim["metadata"]["namespace"] for claim in found if claim["spec"]["storageClassName"] == "standard"}

"""The examples of docs/components.md as a Pulumi program without our settings, with a real engine and cluster."""

import re

import pytest
import yaml

from tests.cluster.lab import NAMESPACE
from tests.cluster.project import ROOT, Project, await_empty

pytestmark = pytest.mark.cluster


def example(heading: str) -> str:
    """Return the code below a heading, with the lab's namespace and a separate flavor."""
    page = (ROOT / "docs/components.md").read_text(encoding="utf-8")
    (code,) = re.findall(rf"^## {heading}\n\n```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    return str(code).replace('"research"', f'"{NAMESPACE}"').replace('"default"', '"plain"')


def test_the_examples_create_a_queue_and_train_in_it(lab: Project) -> None:
    """A second preview has no changes, and `destroy` removes all objects."""
    folder = lab.root / "another"
    folder.mkdir()
    options = {"virtualenv": str(ROOT / ".venv")}
    (folder / "Pulumi.yaml").write_text(
        yaml.safe_dump({"name": "another", "runtime": {"name": "python", "options": options}})
    )
    headings = ("Queues", "A training run", "A sweep", "Resources of the provider in the same program")
    (folder / "__main__.py").write_text("\n".join(map(example, headings)))
    project = Project(folder, lab.kubeconfig, "plain", {**lab.variables, "PYTHONPATH": str(lab.root)})
    done = project.run(["pulumi", "stack", "init", "plain", "--non-interactive"])
    assert done.code == 0, done.text
    try:
        done = project.up()
        assert done.code == 0, done.text
        queue = project.get("clusterqueue", NAMESPACE)
        (flavor,) = queue["spec"]["resourceGroups"][0]["flavors"]
        assert [quota["nominalQuota"] for quota in flavor["resources"]] == ["4", "8Gi"]
        jobs = [job["metadata"]["name"] for job in project.select("job", "trainstack.dev/stack=plain", NAMESPACE)]
        trials = [name for name in jobs if name.startswith("search-")]
        assert (len(jobs), len(trials)) == (4, 2)
        assert project.get("configmap", "greeting", NAMESPACE)["data"] == {"TEXT": "hello"}
        targets = [f"job/{name}" for name in jobs]
        done = project.kubectl("wait", "--for=condition=Complete", *targets, "-n", NAMESPACE, "--timeout=120s")
        assert done.code == 0, done.text
        assert project.changes() == {}
    finally:
        done = project.pulumi("destroy", "--yes", "--skip-preview", "--remove")
    assert done.code == 0, done.text
    kinds = "job,configmap,localqueue"

    def left() -> set[str]:
        return {body["metadata"]["name"] for body in project.select(kinds, "trainstack.dev/stack=plain", NAMESPACE)}

    await_empty("the program", left, 60)
    assert not project.select("clusterqueue,resourceflavor", "trainstack.dev/stack=plain", "")

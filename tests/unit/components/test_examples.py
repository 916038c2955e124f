"""The examples of docs/components.md, each as a Pulumi program of its own."""

import re

import pytest

from tests.registrations.recorder import record
from tests.unit.environments import ROOT

PAGE = (ROOT / "docs/components.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"^## ([^\n]+)\n\n```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
DECLARED = {
    "Queues": {"ResourceFlavor", "ClusterQueue", "LocalQueue"},
    "A training run": {"Job", "ConfigMap"},
    "A sweep": {"Job", "ConfigMap"},
    "Namespaces and teams": {"Namespace", "NetworkPolicy", "Role", "RoleBinding"},
    "Storage": {"StorageClass", "PersistentVolumeClaim"},
}
"""By heading: the kinds that the example declares."""


@pytest.mark.parametrize("heading", EXAMPLES)
def test_an_example_declares_its_objects(heading: str) -> None:
    """As it is printed: nothing is imported, configured or hooked beforehand."""
    code = compile(EXAMPLES[heading], heading, "exec")
    registrations = record(lambda: exec(code, {}), "dev")
    objects = [found for found in registrations if found.type.startswith("kubernetes:")]
    assert {found.type.rpartition(":")[2] for found in objects} == DECLARED[heading]
    assert all(not found.hooks for found in objects)


def test_every_example_is_run() -> None:
    """A heading with code that this test does not know would not be run."""
    assert EXAMPLES.keys() == DECLARED.keys()
    assert PAGE.count("```python") == len(EXAMPLES)

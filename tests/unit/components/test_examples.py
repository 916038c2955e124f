"""Each example of docs/components.md is a Pulumi program."""

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
    "Resources of the provider in the same program": {"Job", "ConfigMap"},
    "Namespaces and teams": {"Namespace", "NetworkPolicy", "Role", "RoleBinding"},
    "Storage": {"StorageClass", "PersistentVolumeClaim"},
}
"""The kinds that each example declares, by heading."""


@pytest.mark.parametrize("heading", EXAMPLES)
def test_an_example_declares_its_objects(heading: str) -> None:
    """The example runs unchanged, without other imports, configuration or hooks."""
    code = compile(EXAMPLES[heading], heading, "exec")
    registrations = record(lambda: exec(code, {}), "dev")
    objects = [entry for entry in registrations if entry.type.startswith("kubernetes:")]
    assert {entry.type.rpartition(":")[2] for entry in objects} == DECLARED[heading]
    assert all(not entry.hooks for entry in objects)


def test_every_example_is_run() -> None:
    """DECLARED lists all headings with code."""
    assert EXAMPLES.keys() == DECLARED.keys()
    assert PAGE.count("```python") == len(EXAMPLES)

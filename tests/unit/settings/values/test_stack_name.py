"""A stack's name is validated once, before its first use."""

from pathlib import Path

import pytest

from trainstack.objects.labels import MAX_LABEL_CHARACTERS, ownership_labels
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import load
from trainstack.settings.values import stack_name
from trainstack.settings.values.stack_name import list_stacks, misnamed_stack_findings, stack_name_fault

VALID = ("dev", "a", "0", "a.b", "a-b.c", "x" * stack_name.MAX_CHARACTERS)
INVALID = (
    "",
    "x" * 64,
    "-x",
    "x-",
    "a..b",
    ".a",
    "a.",
    "A",
    "a_b",
    "a/b",
    "../a",
    "a\n",
    "\u0663",
    "a b",
    "x" * 10_000,
)


@pytest.mark.parametrize("name", VALID)
def test_a_valid_name_is_a_valid_label_value(name: str) -> None:
    """Every accepted name can be used in the labels of objects."""
    assert stack_name_fault(name) is None
    assert ownership_labels(name)["trainstack.dev/stack"] == name
    assert stack_name.MAX_CHARACTERS == MAX_LABEL_CHARACTERS


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_name_is_a_fault_of_the_environment(tmp_path: Path, name: str) -> None:
    """It is reported before any file is read, with a short message."""
    with pytest.raises(SettingsError) as error:
        load(tmp_path, name)
    (finding,) = error.value.findings
    assert "name" in finding.message
    assert finding.remedy
    assert len(str(finding)) < 400


def test_files_with_invalid_stack_names_are_listed_separately(tmp_path: Path) -> None:
    """They are not environments, but are not ignored either."""
    for name in ("dev", "-x", "X", "b.c"):
        (tmp_path / f"Pulumi.{name}.yaml").touch()
    assert list_stacks(tmp_path) == ("b.c", "dev")
    assert [finding.where.file for finding in misnamed_stack_findings(tmp_path)] == ["Pulumi.-x.yaml", "Pulumi.X.yaml"]

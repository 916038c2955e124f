"""A stack's name is checked once, before anything is made of it."""

from pathlib import Path

import pytest

from trainstack.objects.labels import LIMIT, mark
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import load
from trainstack.settings.values import stack_name
from trainstack.settings.values.stack_name import fault, misnamed, stacks

GOOD = ("dev", "a", "0", "a.b", "a-b.c", "x" * stack_name.LIMIT)
BAD = ("", "x" * 64, "-x", "x-", "a..b", ".a", "a.", "A", "a_b", "a/b", "../a", "a\n", "\u0663", "a b", "x" * 10_000)


@pytest.mark.parametrize("name", GOOD)
def test_a_good_name_is_one_that_a_label_holds(name: str) -> None:
    """Whatever is accepted can be written into the labels of objects."""
    assert fault(name) is None
    assert mark(name)["trainstack.dev/stack"] == name
    assert stack_name.LIMIT == LIMIT


@pytest.mark.parametrize("name", BAD)
def test_a_bad_name_is_a_fault_of_the_environment(tmp_path: Path, name: str) -> None:
    """Before a file is looked for, and with a short message."""
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, name)
    (told,) = caught.value.findings
    assert "name" in told.message
    assert told.remedy
    assert len(str(told)) < 400


def test_files_whose_names_are_no_stacks_are_told_apart(tmp_path: Path) -> None:
    """They are no environments, and are not passed over either."""
    for name in ("dev", "-x", "X", "b.c"):
        (tmp_path / f"Pulumi.{name}.yaml").touch()
    assert stacks(tmp_path) == ("b.c", "dev")
    assert [each.where.file for each in misnamed(tmp_path)] == ["Pulumi.-x.yaml", "Pulumi.X.yaml"]

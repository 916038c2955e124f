"""The roles of environments with operators, whose releases `make tools` makes."""

import pytest

from cli.rights import FOLDER, text
from cli.session import Session
from tests.cluster.project import ROOT
from tests.unit.stacks.test_environment_rights import INSTALLING

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("stack", INSTALLING)
def test_the_written_roles_of_environments_with_operators_are_current(stack: str) -> None:
    """As tests/unit has it of the others; else run `trainstack rights -s <environment>`."""
    assert (ROOT / FOLDER / f"{stack}.yaml").read_text(encoding="utf-8") == text(Session(ROOT, stack))

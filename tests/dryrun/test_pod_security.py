"""The preflight refuses exactly those of upstream's pods that a Pod Security level refuses."""

from pathlib import Path

import pytest
import yaml
from rich.console import Console

from trainstack.preflight.pod_security import find_pod_security_violations
from trainstack.toolchain import go_toolchain
from trainstack.toolchain.build import Builder
from trainstack.toolchain.groups import GROUPS_BY_NAME

pytestmark = pytest.mark.cluster

MODULE, FIXTURES = "k8s.io/pod-security-admission", "test/testdata"
VERSION = "v1.34"
STRICTER = {"base_windows.yaml"}
"""Windows pods, for which three rules do not apply."""


def upstream(level: str, result: str) -> list[Path]:
    """Return the pods that the level admits, or refuses, from the pinned Go module of the API server."""
    builder = Builder(go_toolchain.ensure(Console(stderr=True)))
    folder = builder.module_folder(GROUPS_BY_NAME["cluster"], MODULE) / FIXTURES / level / VERSION / result
    return sorted(folder.glob("*.yaml"))


@pytest.mark.parametrize(("level", "least"), [("baseline", 30), ("restricted", 70)])
def test_upstream_s_pods_are_judged_as_upstream_judges_them(level: str, least: int) -> None:
    """Every fixture has at most one fault."""
    for result in ("pass", "fail"):
        judged = {
            path.name: find_pod_security_violations(yaml.safe_load(path.read_text()), level)
            for path in upstream(level, result)
        }
        wrong = {name for name, found in judged.items() if bool(found) != (result == "fail")}
        assert wrong == (STRICTER & judged.keys())
        assert len(judged) > (least if result == "fail" else 10)


@pytest.mark.parametrize("level", ["privileged", ""])
def test_no_other_level_refuses_anything(level: str) -> None:
    """Nor one that the settings do not know."""
    for path in upstream("baseline", "fail"):
        assert find_pod_security_violations(yaml.safe_load(path.read_text()), level) == []

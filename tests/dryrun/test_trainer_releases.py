"""The API server accepts the same TrainJobs and TrainingRuntimes with the definitions of all releases of Trainer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console
from semver import Version

from tests.dryrun.server import Manifest, Server, dry_run_server
from tests.unit.make import make_distributed, make_manifest, make_settings
from tests.unit.runs.launches import make_launch
from trainstack.preflight.rule_context import RuleContext
from trainstack.preflight.rules.trainjobs import trainjob_limit
from trainstack.runs.manifests.build import companions, manifest
from trainstack.settings.sections.code import Code
from trainstack.settings.sections.operators import Install, Operators
from trainstack.settings.sections.pod_options import Scratch
from trainstack.settings.sections.secrets import SecretValue
from trainstack.settings.sections.topology import TopologyRequest
from trainstack.settings.sections.workloads import Workload
from trainstack.stack_objects.stack_objects import StackObjects
from trainstack.toolchain import go_modules, go_toolchain
from trainstack.toolchain.build import Builder
from trainstack.toolchain.groups import GROUPS_BY_NAME, ProgramGroup
from trainstack.toolchain.places import GO_MODULES

pytestmark = pytest.mark.cluster

MODULE = "github.com/kubeflow/trainer/v2"
PINS = Path(__file__).parent / "trainer"
"""The folder with a go.mod for each release beyond the one that environments install."""
DECLARED = GROUPS_BY_NAME["cluster"]
RELEASES = {
    "v2.3": (GO_MODULES, DECLARED),
    **{
        minor: (PINS, ProgramGroup(name=minor, module=minor, purpose="definitions", programs=(), seconds=0))
        for minor in ("v2.1", "v2.2")
    },
}
"""The folder of modules and the group whose go.mod pins the release, by minor release."""
UNMANAGED: dict[str, Any] = {"managed": False, "record": None}
WORKLOADS: dict[str, dict[str, Any]] = {
    "managed": {},
    "unmanaged": UNMANAGED,
    "runtime of the cluster": {**UNMANAGED, "volumes": (), "runtime": "torch-distributed"},
    "complete": {
        "args": ("--a", "é"),
        "env": {"A": "1"},
        "secret_env": {"B": SecretValue(secret="s", key="k")},
        "code": Code(git="https://git.example.org/a/b.git", revision="a" * 40, mount_path="/code"),
        "working_dir": "/code",
        "shared_memory": "1Gi",
        "scratch": (Scratch(name="x", mount_path="/x", size="1Gi", storage_class="shared"),),
        "run_as_user": 1000,
        "node_selector": {"pool": "gpu"},
        "annotations": {"n": "m"},
        "topology_request": TopologyRequest(required="example.com/rack"),
        "pod_patch": {"spec": {"schedulerName": "s", "tolerations": [{"operator": "Exists"}]}},
        "active_deadline_seconds": 60,
        "backoff_limit": 3,
        "seed": 1,
        "service_account": "trainer",
    },
}


def definitions(minor: str) -> Iterator[Manifest]:
    """Yield the definitions of a release, which `go mod download` has verified."""
    modules, group = RELEASES[minor]
    folder = Builder(go_toolchain.ensure(Console(stderr=True)), modules).module_folder(group, MODULE)
    for plural in ("trainjobs", "trainingruntimes"):
        file = folder / "manifests/base/crds" / f"trainer.kubeflow.org_{plural}.yaml"
        yield yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)


@pytest.fixture(scope="module", params=[*RELEASES])
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Server]]:
    """Run an API server with the definitions of each release, and yield its version and the server."""
    modules, group = RELEASES[request.param]
    version = go_modules.load(modules / group.module / "go.mod").version(MODULE)
    with dry_run_server(tmp_path_factory.mktemp("server"), list(definitions(request.param))) as server:
        yield version, server


def objects(workload: Workload) -> list[Manifest]:
    """Return the TrainingRuntime, unless the cluster has it, and the TrainJob of a workload."""
    launch = make_launch(git_image="git:1")
    return [*companions(workload, "dev", launch), manifest(workload, "dev", launch)]


@pytest.mark.parametrize("changes", WORKLOADS.values(), ids=WORKLOADS)
def test_every_release_accepts_the_objects(release: tuple[str, Server], changes: dict[str, Any]) -> None:
    """No field is unknown, and no value is refused."""
    _, server = release
    assert server.refusals(objects(make_distributed(kind="TrainJob", **changes))) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"args": ("x",) * 128},
        {"args": ("x",) * 129},
        {"env": {f"V{number}": "x" for number in range(124)}},
        {"env": {f"V{number}": "x" for number in range(125)}},
        {"args": ("x" * 65_536,)},
        {"args": ("x" * 65_537,)},
    ],
    ids=["most args", "more args", "most variables", "more variables", "long argument", "longer argument"],
)
def test_check_knows_the_limits_of_each_release(release: tuple[str, Server], changes: dict[str, Any]) -> None:
    """It refuses what the API server refuses, and nothing else. Trainer v2.1 has no limits."""
    version, server = release
    run = make_distributed(kind="TrainJob", **UNMANAGED, **changes)
    trainer = Install(manifest=make_manifest(version=version))
    settings = make_settings(run, operators=Operators(trainer=trainer, jobset=trainer))
    findings = [*trainjob_limit.find(RuleContext(StackObjects(settings), Path()))]
    assert bool(findings) is bool(server.refusals(objects(run)))
    assert not findings or Version.parse(version.removeprefix("v")) >= Version(2, 2, 0)

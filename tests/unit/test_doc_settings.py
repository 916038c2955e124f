"""Every example of settings in the documentation works in a project that `trainstack init` has written.

tests/unit/test_front_doors.py applies the blocks `yaml edit FILE` of the start pages.
"""

import re
import shlex
from functools import cache
from inspect import cleandoc
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.copies import copy_into
from tests.doc_blocks import FENCE, PAGES, ROOT, Block, all_blocks, blocks, prose
from tests.start_pages import EDIT, Edit
from trainstack.cli.app import app
from trainstack.cli.commands.sweep_expand import expand_sweeps
from trainstack.files.project import edit_project
from trainstack.onboarding.new_project.files import WORKLOAD, Installation, build_new_files
from trainstack.onboarding.new_project.origin import Origin
from trainstack.onboarding.new_project.release import RELEASE_URLS, PinnedRelease, release_url
from trainstack.onboarding.new_project.request import ProjectRequest
from trainstack.onboarding.new_project.services import SERVICES
from trainstack.preflight.all_rules import ALL_RULES
from trainstack.preflight.file_checks import check, load_error_result
from trainstack.preflight.finding import Finding
from trainstack.preflight.rule import Rule
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.rank_variables import rank_variables
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import default_version, load_with_places
from trainstack.stack_objects.stack_objects import StackObjects

CHANGES, WORKLOADS, SPACES = blocks("yaml change"), blocks("yaml workload"), blocks("yaml space")
INFOS = ("yaml change", "yaml environment", "yaml workload", "yaml space", "yaml schema", "yaml finding")
OWNERS = [cluster for cluster, service in SERVICES.items() if service.storage_class]
"""The clusters whose projects `init` writes without values to fill in."""
PROJECTS = [*OWNERS, "tenant"]
OWNERS_SECTIONS = {"trainstack:queues", "trainstack:operators", "trainstack:tenants"}
"""Sections of a platform's owner, which no tenant edits."""
OWNERS_KEYS = {"trainstack:environment": {"namespaces"}, "trainstack:storage": {"classes", "persistentVolumes"}}
"""Keys of other sections that no tenant sets."""
FOLDER = re.compile(r"\bworkloads/\w+")
LINK_TO_RULE = re.compile(r"\]\((?:\.\./)*checks\.md#([a-z-]+)\)")


@cache
def new_files(project: str) -> dict[str, str]:
    """Return the files that `init` writes for an owner on a cluster, or for a tenant, with the environment `dev`."""
    tenant = {"profile": "tenant", "cluster": "eks", "namespace": "training", "queue": "training"}
    request = tenant if project == "tenant" else {"profile": "owner", "cluster": project}
    return build_new_files(
        ProjectRequest(name="lab", environment="dev", **request),
        Installation(Origin(requirement="./wheels/trainstack.whl"), ""),
        {
            name: PinnedRelease(default_version(name), release_url(name, default_version(name)), "ab" * 32)
            for name in RELEASE_URLS
        },
        virtualenv=False,
    )


def create_project(root: Path, project: str) -> None:
    """Write the files of a new project."""
    for path, text in new_files(project).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def edit_environment(root: Path, sections: str) -> None:
    """Edit the environment as a reader does."""
    Edit("Pulumi.dev.yaml", f"config:\n{indent(sections, '  ')}").apply(root)


def apply_change(root: Path, change: Block) -> None:
    """Edit the environment; write the search spaces that the change refers to."""
    edit_environment(root, change.text)
    for sweep in yaml.safe_load(change.text).get("trainstack:sweeps", {}).get("sweeps", ()):
        if not (root / "sweeps" / sweep["name"]).exists():
            write_space(root, sweep["name"], next(block for block in SPACES if block.page == change.page))


def write_space(root: Path, sweep: str, space: Block) -> None:
    """Write a search space and its parameter sets."""
    folder = root / "sweeps" / sweep
    folder.mkdir(parents=True)
    (folder / "space.yaml").write_text(space.text)
    with edit_project(root) as edit:
        expand_sweeps(root, [sweep], edit)


def findings(root: Path) -> list[Finding]:
    """Return what `trainstack check -s dev` reports."""
    try:
        loaded = load_with_places(root, "dev")
    except SettingsError as error:
        return load_error_result(error).findings
    return check(loaded.settings, root, loaded.places)


def assert_works(root: Path, page: str) -> None:
    """Check that there is no error, and no warning without a link from the page to its rule."""
    explained = {*LINK_TO_RULE.findall(prose(ROOT / page))}
    unexplained = [
        str(finding)
        for finding in findings(root)
        if finding.is_blocking
        or (finding.severity == "warning" and finding.id not in explained and not finding.silence_reason)
    ]
    assert unexplained == []


def is_for_owners(change: Block) -> bool:
    """Return whether a tenant may not make the change, by rule `tenant-cluster-scoped`."""
    sections = yaml.safe_load(change.text)
    return not OWNERS_SECTIONS.isdisjoint(sections) or any(
        not keys.isdisjoint(sections.get(section, {})) for section, keys in OWNERS_KEYS.items()
    )


def changes_for(project: str) -> list[Block]:
    """Return the changes that the user of a project may make."""
    return [change for change in CHANGES if project != "tenant" or not is_for_owners(change)]


@pytest.mark.parametrize(
    ("project", "change"), [(project, change) for project in PROJECTS for change in changes_for(project)], ids=str
)
def test_every_change_of_the_docs_works_in_a_new_project(project: str, change: Block, tmp_path: Path) -> None:
    """The block is an edit of the environment."""
    create_project(tmp_path, project)
    apply_change(tmp_path, change)
    assert_works(tmp_path, change.page)


@pytest.mark.parametrize("project", PROJECTS)
@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_every_workload_of_the_docs_works_in_a_new_project(workload: Block, project: str, tmp_path: Path) -> None:
    """The block replaces the workload of the project, with the changes of the environment in its section.

    The page links to the folders of this repository that the block needs.
    """
    create_project(tmp_path, project)
    (tmp_path / "workloads" / WORKLOAD / "workload.yaml").write_text(workload.text)
    for folder in set(FOLDER.findall(workload.text)):
        assert re.search(rf"\]\((\.\./)+{folder}\)", prose(ROOT / workload.page))
        copy_into(tmp_path, folder)
    for change in changes_for(project):
        if (change.page, change.section) == (workload.page, workload.section):
            apply_change(tmp_path, change)
    assert_works(tmp_path, workload.page)


def test_the_page_about_trainjobs_converts_a_pytorchjob(tmp_path: Path) -> None:
    """The nodes of its TrainJob differ from the master of its PyTorchJob in the container's name and port, and in the
    variables that the training operator sets by itself."""
    pods_by_kind: dict[str, Any] = {}
    for workload in (block for block in WORKLOADS if block.page == "docs/pytorchjob-to-trainjob.md"):
        folder = tmp_path / str(len(pods_by_kind))
        create_project(folder, "kind")
        (folder / "workloads" / WORKLOAD / "workload.yaml").write_text(workload.text)
        copy_into(folder, "workloads/digits")
        settings = load_with_places(folder, "dev").settings
        (run,) = settings.workloads.runs
        pods_by_kind[run.kind] = launched_pods(*StackObjects(settings).queued_objects(run))
    master, workers = pods_by_kind["PyTorchJob"]
    (nodes,) = pods_by_kind["TrainJob"]
    assert nodes.count == master.count + workers.count
    (node,), (container,) = nodes.spec["containers"], master.spec["containers"]
    variables = [*container["env"], *rank_variables(3, f"{WORKLOAD}-node-0-0.{WORKLOAD}")]
    assert {**node, "ports": container["ports"]} == {**container, "name": "node", "env": variables}
    assert {**nodes.spec, "containers": []} == {**master.spec, "containers": [], "restartPolicy": "OnFailure"}


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_every_space_of_the_docs_works_in_a_new_project(space: Block, tmp_path: Path) -> None:
    """The block is the space of the sweep that the page adds to the environment."""
    create_project(tmp_path, "kind")
    (change,) = (block for block in CHANGES if block.page == space.page)
    (sweep,) = yaml.safe_load(change.text)["trainstack:sweeps"]["sweeps"]
    write_space(tmp_path, sweep["name"], space)
    apply_change(tmp_path, change)
    assert_works(tmp_path, space.page)


@pytest.mark.parametrize("environment", blocks("yaml environment"), ids=str)
def test_every_environment_of_the_docs_works_in_a_new_project(environment: Block, tmp_path: Path) -> None:
    """The block is a whole `Pulumi.<env>.yaml`."""
    create_project(tmp_path, "kind")
    (tmp_path / "Pulumi.dev.yaml").write_text(environment.text)
    assert_works(tmp_path, environment.page)


@pytest.mark.parametrize("project", PROJECTS)
def test_every_forecast_of_the_docs_works_in_a_new_project(
    project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths of `--set` and flavors of `--nodes` are those of an owner's project; a tenant's has no queues."""
    create_project(tmp_path, project)
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks("sh") if block.page == "docs/forecast.md" for line in block.text.splitlines()]
    for line in lines:
        if "--cluster" not in line and (project != "tenant" or "--" not in line):
            result = CliRunner().invoke(app, shlex.split(line)[1:])
            assert result.exit_code == 0, f"{line}\n{result.output}"


@pytest.mark.parametrize("rule", [rule for rule in ALL_RULES if rule.change], ids=lambda rule: rule.id)
def test_the_example_of_a_rule_violates_this_rule_alone(rule: Rule, tmp_path: Path) -> None:
    """The example is an edit of the environment of a new project."""
    create_project(tmp_path, "kind")
    edit_environment(tmp_path, cleandoc(rule.change))
    reported = [finding for finding in findings(tmp_path) if finding.severity != "unknown"]
    assert {finding.id for finding in reported} == {rule.id}
    assert {finding.severity for finding in reported} <= {*rule.severities}


def test_every_yaml_block_of_a_finding_is_of_a_rule() -> None:
    """Each block is executed."""
    examples = {cleandoc(rule.change) for rule in ALL_RULES} - {""}
    assert {block.text.strip() for block in blocks("yaml finding")} == examples


@pytest.mark.parametrize("project", PROJECTS)
def test_a_new_project_has_the_line_for_editors(project: str) -> None:
    """The schemas are in the project."""
    (line,) = blocks("yaml schema")
    assert new_files(project)["Pulumi.dev.yaml"].startswith(line.text)


def test_every_yaml_block_is_of_a_known_kind() -> None:
    """The text after the opening fence has the kind, so no block is skipped by mistake."""
    others = [block for block in all_blocks() if block.is_yaml and block.info not in INFOS]
    assert [
        str(block) for block in others if not (block.info.startswith(EDIT) and block.page.startswith("docs/start/"))
    ] == []


def test_settings_are_in_yaml_blocks() -> None:
    """No test finds them in a block of another language, or in one that is indented or has another fence."""
    assert [
        str(block)
        for block in all_blocks()
        if not block.is_yaml and re.search(r"^\s*(config|trainstack:\w+):", block.text, re.MULTILINE)
    ] == []
    pages = {page: FENCE.sub("", page.read_text(encoding="utf-8")) for page in PAGES}
    assert [page for page, text in pages.items() if re.search(r"^\s*(```|~~~)", text, re.MULTILINE)] == []

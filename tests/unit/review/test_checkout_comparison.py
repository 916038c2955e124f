"""A fork's files are compared by our code, and none of their code runs or makes us read other files."""

import json
import shutil
from pathlib import Path

import pytest

from tests.unit.review.samples import review
from trainstack.review import checkout_comparison as module
from trainstack.review.checkout_comparison import compare_checkouts
from trainstack.review.checkout_manifests import as_yaml, checkout_manifests
from trainstack.review.report import read_report

ROOT = Path(__file__).resolve().parents[3]


def make_checkout(folder: Path) -> Path:
    """Create the files of an environment of this project, and a program that must not run."""
    folder.mkdir()
    for name in ("Pulumi.yaml", "Pulumi.dev.yaml", "defaults.yaml"):
        shutil.copy(ROOT / name, folder / name)
    for name in ("workloads/digits", "trainstack/runs/wrapper"):
        shutil.copytree(ROOT / name, folder / name)
    for package in ("trainstack", "trainstack/settings", "trainstack/runs", "trainstack/review"):
        (folder / package).mkdir(exist_ok=True)
        (folder / package / "__init__.py").write_text("raise SystemExit('run')\n", encoding="utf-8")
    (folder / "__main__.py").write_text("raise SystemExit('run')\n", encoding="utf-8")
    return folder


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Create the checkout of the base."""
    return make_checkout(tmp_path / "base")


@pytest.fixture
def head(tmp_path: Path) -> Path:
    """Create the checkout of the pull request."""
    return make_checkout(tmp_path / "head")


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare without a separate process, which takes a second to start: the integration tests start it."""
    monkeypatch.setattr(module, "run_bounded", lambda work, *arguments: work(*arguments))


def edit(checkout: Path, old: str, new: str, file: str = "Pulumi.dev.yaml") -> None:
    """Replace text that is in a file."""
    text = (checkout / file).read_text(encoding="utf-8")
    assert old in text
    (checkout / file).write_text(text.replace(old, new), encoding="utf-8")


def test_the_same_files_change_nothing(base: Path, head: Path) -> None:
    """No release is needed for this."""
    report = compare_checkouts(base, head, "dev", 7)
    assert (report.counts.changes, report.facts, report.diff, report.error, report.pull) == (0, (), "", "", 7)
    assert report.counts.same > 5


def test_an_edit_is_a_difference_of_manifests(base: Path, head: Path) -> None:
    """The diff is per object, with the meaning."""
    edit(head, "nominalQuota: 2}", "nominalQuota: 4}")
    report = compare_checkouts(base, head, "dev", None)
    assert [fact.meaning for fact in report.facts] == ["quota-moved"]
    assert report.diff.splitlines()[0] == "diff ClusterQueue research"
    assert "-        nominalQuota: '2'\n+        nominalQuota: '4'" in report.diff


def test_runs_are_judged_by_the_quota_of_the_pull_request(base: Path, head: Path) -> None:
    """A run may never fit a smaller quota; no preview is needed to see it."""
    (sound,) = compare_checkouts(base, head, "dev", None).verdicts
    assert (sound.runs, sound.outcome, sound.placed) == (("digits",), "fits", "on cpu")
    edit(head, "nominalQuota: 2}", "nominalQuota: 500m}")
    (judged,) = compare_checkouts(base, head, "dev", None).verdicts
    assert (judged.outcome, judged.placed) == ("never fits", "")
    (lack,) = judged.lacks
    assert lack.endswith("cluster queue research has at most 0.5 of flavor cpu (0.25 missing)")
    assert len(judged.remedies) == 3


def test_another_run_is_one_difference_under_its_workloads_name(base: Path, head: Path) -> None:
    """Its object and its runtime have other names, and people look for the workload."""
    edit(head, "--epochs=12", "--epochs=13", "workloads/digits/workload.yaml")
    report = compare_checkouts(base, head, "dev", None)
    assert {fact.meaning for fact in report.facts} == {"run-dropped", "run-declared"}
    headings = [line for line in report.diff.splitlines() if line.startswith("diff ")]
    assert headings == [f"diff {kind} research/workload digits" for kind in ("TrainingRuntime", "TrainJob")]


def test_an_added_or_removed_environment(base: Path, head: Path) -> None:
    """All objects are created or released; retained volumes have their own sentence."""
    (head / "Pulumi.dev.yaml").unlink()
    removal = compare_checkouts(base, head, "dev", None)
    assert removal.counts.delete > 5
    assert removal.counts.same == 0
    assert "volume-kept" in {fact.meaning for fact in removal.facts}
    assert "namespace-lost" not in {fact.meaning for fact in removal.facts}
    assert compare_checkouts(head, base, "dev", None).counts.create == removal.counts.delete


def test_an_error_is_the_result(base: Path, head: Path) -> None:
    """The result has the place and the remedy."""
    edit(head, "queues:", "queue:")
    assert "did you mean trainstack:queues?" in compare_checkouts(base, head, "dev", None).error


@pytest.mark.parametrize(
    "place", ["workloads/digits/workload.yaml", "trainstack/runs/wrapper/run.py", "Pulumi.dev.yaml"]
)
def test_a_link_out_of_the_checkout_is_refused(base: Path, head: Path, tmp_path: Path, place: str) -> None:
    """Its target would be in the comment."""
    (tmp_path / "secret").write_text("hunter2", encoding="utf-8")
    (head / place).unlink()
    (head / place).symlink_to(tmp_path / "secret")
    report = compare_checkouts(base, head, "dev", None)
    assert "symbolic link to a target outside the repository" in report.error
    assert "hunter2" not in report.model_dump_json()


@pytest.mark.parametrize("path", ["/dev/zero", "../secret"])
def test_a_path_out_of_the_checkout_is_refused(base: Path, head: Path, path: str) -> None:
    """Even its digest is not shown, and an endless file is not read."""
    edit(head, "manifest: workloads/digits/data.json", f"manifest: {path}", "workloads/digits/workload.yaml")
    assert "is outside the repository" in compare_checkouts(base, head, "dev", None).error


@pytest.mark.usefixtures("in_process")
def test_the_program_compares_every_environment(
    base: Path, head: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program runs like the workflow, from the list of environments to the comment."""
    shutil.copy(base / "Pulumi.dev.yaml", head / "Pulumi.new.yaml")
    output, event = tmp_path / "output", tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7}}), encoding="utf-8")
    monkeypatch.setenv("GITHUB_OUTPUT", str(output))
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(event))
    checkouts = ["--base", base, "--head", head]
    assert review("environments", *checkouts, "--output").exit_code == 0
    assert output.read_text(encoding="utf-8") == 'environments=["dev", "new"]\n'
    reports = tmp_path / "reports"
    assert review("static", *checkouts, "--reports", reports).exit_code == 0
    assert [report and report.pull for report in (read_report(reports, "dev"), read_report(reports, "new"))] == [7, 7]
    assert review("static", *checkouts, "--reports", reports, "--stack", "prod").exit_code == 2
    result = review("comment", "--reports", reports, "--stack", "dev", "--stack", "new")
    assert result.exit_code == 0
    text = result.stdout
    assert "### `new`" in text
    assert "### `dev`" not in text
    assert "No changes in the rendered manifests of `dev`." in text


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("command", ["static", "preview"])
def test_a_change_that_cannot_be_applied_fails(
    base: Path, head: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """All reports are written before; a preview that only compares files ends in the same way."""
    for name in ("KUBECONFIG", "TRAINSTACK_KUBECONFIG", "GITHUB_EVENT_PATH"):
        monkeypatch.delenv(name, raising=False)
    shutil.copy(head / "Pulumi.dev.yaml", head / "Pulumi.new.yaml")
    edit(head, "nominalQuota: 2}", "nominalQuota: two}")
    result = review(command, "--base", base, "--head", head, "--reports", tmp_path)
    assert result.exit_code == 4
    assert result.stderr.endswith("error: this change cannot be applied to dev; the report has the reasons\n")
    dev, new = read_report(tmp_path, "dev"), read_report(tmp_path, "new")
    assert dev is not None
    assert new is not None
    assert ("nominalQuota" in dev.error, new.error) == (True, "")


@pytest.mark.usefixtures("in_process")
def test_a_preview_without_a_cluster_falls_back_to_the_files(
    base: Path, head: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds while no credentials are configured."""
    for name in ("KUBECONFIG", "TRAINSTACK_KUBECONFIG", "GITHUB_EVENT_PATH"):
        monkeypatch.delenv(name, raising=False)
    reports = tmp_path / "reports"
    assert review("preview", "--base", base, "--head", head, "--reports", reports).exit_code == 0
    report = read_report(reports, "dev")
    assert report is not None
    assert report.kind == "static"


def test_what_is_declared_is_plain_yaml(base: Path) -> None:
    """Each object is one document, without anchors; namespaces are first."""
    objects = checkout_manifests(base, "dev", commit="abc", with_releases=False)
    text = as_yaml(objects)
    assert objects[0]["kind"] == "Namespace"
    assert text.count("\n---\n") == len(objects) - 1
    assert "&id" not in text

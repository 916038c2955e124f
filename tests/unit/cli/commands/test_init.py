"""`trainstack init`: a project in its own repository."""

import re
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from tests.unit.review.test_workflows import PINNED
from trainstack.cli.app import app
from trainstack.cli.commands import init
from trainstack.errors import TrainstackError
from trainstack.onboarding.new_project.files import (
    ORIGIN_FILE,
    OWNED_FILES,
    Installation,
    build_new_files,
    build_owned_files,
    renew_owned_files,
)
from trainstack.onboarding.new_project.origin import Origin
from trainstack.onboarding.new_project.request import PROFILES, ProjectRequest
from trainstack.onboarding.new_project.services import SERVICES
from trainstack.platform.operators.release import DownloadError
from trainstack.settings.loading.load import load, read_placement
from trainstack.settings.loading.yaml_reader import read_map

ROOT = Path(__file__).resolve().parents[4]
FILES = {*OWNED_FILES, "Pulumi.dev.yaml", "workloads/hello/workload.yaml"}
TENANTS = FILES - {"Pulumi.dev.yaml"} | {"Pulumi.vision.yaml"}
CASES = sorted(product(PROFILES, SERVICES))
NAMES = ("--namespace", "vision", "--queue", "gpu")
WHEEL = Origin(requirement="./wheels/trainstack-1-py3-none-any.whl --hash=sha256:01", wheel=Path("/w/trainstack-1.whl"))
INSTALLATION = Installation(WHEEL, "typer==0.29.2 --hash=sha256:02")
OLD_INSTALLATION = Installation(
    Origin(requirement="./wheels/trainstack-0-py3-none-any.whl --hash=sha256:00"), "typer==0.28.0 --hash=sha256:03"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create an empty repository and make it the current folder."""
    root = tmp_path / "lab"
    (root / ".git").mkdir(parents=True)
    monkeypatch.chdir(root)
    return root


def refuse_download(*_: object) -> str:
    """Fail as without a network."""
    raise DownloadError("github.com cannot be reached", "check the network")


@pytest.fixture(autouse=True)
def installation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this installation one from a wheel, since that of the tests is a folder's, and do not use the network."""
    monkeypatch.setattr(init, "_installation", lambda: INSTALLATION)
    monkeypatch.setattr(init, "fetch_unpinned", refuse_download)


def trainstack(*words: str) -> Result:
    """Run a command."""
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})


def files(root: Path) -> dict[str, str]:
    """Return the files that git would not ignore."""
    paths = (path for path in root.rglob("*") if path.is_file())
    names = {path.relative_to(root).as_posix(): path for path in paths}
    return {name: path.read_text() for name, path in names.items() if not name.startswith((".git/", ".trainstack/"))}


def make_request(**changes: Any) -> ProjectRequest:
    """Return the request for an owner's project on kind."""
    return ProjectRequest(**{"name": "lab", "profile": "owner", "cluster": "kind", **changes})


@pytest.mark.parametrize(("profile", "cluster"), CASES)
def test_a_new_project_is_sound(folder: Path, profile: str, cluster: str) -> None:
    """`check` accepts its files; each unknown value is an error with file and line."""
    result = trainstack("init", "--profile", profile, "--cluster", cluster, *NAMES)
    assert result.exit_code == 0, result.output
    written = files(folder)
    assert written.keys() == (FILES if profile == "owner" else TENANTS)
    stack = "dev" if profile == "owner" else "vision"
    checked = trainstack("check", "-s", stack)
    text = written[f"Pulumi.{stack}.yaml"]
    if cluster == "other":
        chosen = text.replace("# storageClass: fast", "storageClass: fast").replace(
            "storageClasses: []", "storageClasses: [fast]"
        )
        assert chosen.count("fast") == 2
        (folder / f"Pulumi.{stack}.yaml").write_text(chosen)
        assert trainstack("check", "-s", stack).exit_code == 0
    assert checked.exit_code == 0, checked.output
    assert set(re.findall(r"^(?:error|warning) .*", checked.stdout, re.MULTILINE)) == set()
    settings = load(folder, stack)
    (run,) = settings.workloads.runs
    (volume,) = settings.storage.volumes
    kind = "TrainJob" if profile == "owner" else "Job"
    assert (run.namespace, run.queue, run.kind, volume.access_modes) == ("vision", "gpu", kind, ("ReadWriteOnce",))
    assert settings.environment.profile == profile
    assert ("hello  fits" in checked.stdout) == (profile == "owner")
    assert [*settings.operators.installs] == (["kueue", "jobset", "trainer"] if profile == "owner" else [])


@pytest.mark.parametrize("profile", PROFILES)
def test_the_objects_of_a_new_project(folder: Path, profile: str) -> None:
    """A tenant's objects are in its namespace; an owner declares what its runs need."""
    trainstack("init", "--profile", profile, "--cluster", "gke", "-s", "dev", *NAMES)
    rendered = trainstack("render", "-s", "dev", "--without-releases")
    assert rendered.exit_code == 0, rendered.output
    kinds = {document["kind"] for document in yaml.safe_load_all(rendered.stdout)}
    scoped = {"Namespace", "ResourceFlavor", "ClusterQueue"}
    assert {"PersistentVolumeClaim", "ConfigMap"} <= kinds
    launches = {"TrainJob", "TrainingRuntime"} if profile == "owner" else {"Job"}
    assert kinds & {"Job", "TrainJob", "TrainingRuntime"} == launches
    assert kinds & scoped == (scoped if profile == "owner" else set())


@pytest.mark.parametrize("cluster", SERVICES)
def test_a_stack_whose_state_is_not_embedded_is_created_by_its_user(folder: Path, cluster: str) -> None:
    """`up` would fail without a login and the stack; the steps name the commands, before it."""
    result = trainstack("init", "--profile", "owner", "--cluster", cluster)
    steps = [line.strip() for line in result.stderr.splitlines() if line.startswith("  ")]
    creation = ["pulumi login (unless you are logged in)", "pulumi stack init dev"]
    embedded = read_placement(folder, "dev").embedded
    assert embedded == (cluster == "kind")
    assert steps[-1] == "trainstack up -s dev"
    assert steps[-3:-1] == creation if not embedded else not set(creation) & set(steps)


def test_existing_files_are_kept(folder: Path) -> None:
    """The command lists them and writes nothing."""
    (folder / ".gitignore").write_text("/mine\n")
    (folder / "workloads" / "hello").mkdir(parents=True)
    (folder / "workloads" / "hello" / "workload.yaml").symlink_to("elsewhere")
    result = trainstack("init", "--profile", "owner", "--cluster", "kind")
    assert result.exit_code == 1
    assert "these files exist in" in result.stderr
    assert ": .gitignore, workloads/hello/workload.yaml; move these files away" in result.stderr
    assert files(folder) == {".gitignore": "/mine\n"}


def test_a_second_init_changes_nothing(folder: Path) -> None:
    """It names the option that renews files."""
    words = ("init", "--profile", "tenant", "--cluster", "aks", *NAMES)
    assert trainstack(*words).exit_code == 0
    before = files(folder)
    result = trainstack(*words)
    assert result.exit_code == 1
    assert "renew the generated files with --upgrade" in result.stderr
    assert files(folder) == before


def test_a_dry_run_shows_the_files(folder: Path) -> None:
    """The output is a diff that git can apply."""
    result = trainstack("init", "--profile", "owner", "--cluster", "eks", "--dry-run")
    assert result.exit_code == 0
    assert set(re.findall(r"^\+\+\+ b/(.*)$", result.stdout, re.MULTILINE)) == FILES
    assert "Nothing was written" in result.stderr
    assert files(folder) == {}


def test_another_folder_is_created(folder: Path) -> None:
    """The project has the name of the folder."""
    result = trainstack("init", "vision", "--profile", "owner", "--cluster", "kind", "-s", "lab")
    assert result.exit_code == 0, result.output
    assert yaml.safe_load((folder / "vision" / "Pulumi.yaml").read_text())["name"] == "vision"
    assert (folder / "vision" / "Pulumi.lab.yaml").is_file()
    assert "git init" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name the profile and the cluster, for example: --profile owner --cluster kind"),
        (["--profile", "owner"], "name the profile and the cluster"),
        (["--upgrade", "--name", "lab"], "--upgrade takes no other option than --dry-run"),
        (["--profile", "boss", "--cluster", "kind"], "'boss' is not one of 'owner', 'tenant'"),
    ],
)
def test_missing_options_are_named(folder: Path, words: list[str], message: str) -> None:
    """The exit code of a wrong command line is 2."""
    result = trainstack("init", *words)
    assert result.exit_code == 2
    assert message in re.sub(r"[\s│]+", " ", result.stderr)


@pytest.mark.parametrize("name", ["My Project!", "a: b", "ä", "x" * 101, ""])
def test_a_name_that_pulumi_refuses(name: str) -> None:
    """The remedy names the option."""
    with pytest.raises(TrainstackError, match=r"is not a valid name for a Pulumi project; use --name with at most 100"):
        build_new_files(make_request(name=name), INSTALLATION, virtualenv=False)


def test_all_faults_of_a_request_are_listed() -> None:
    """Each fault has a remedy."""
    request = make_request(
        name="a b", environment="Dev", profile="tenant", cluster="gce", namespace="A", queue="x" * 64
    )
    with pytest.raises(TrainstackError) as caught:
        build_new_files(request, INSTALLATION, virtualenv=False)
    lines = str(caught.value).splitlines()
    assert [line for line in lines if ";" not in line] == []
    assert [
        word in line
        for word, line in zip(("'a b'", "'Dev'", "--namespace 'A'", "--queue", "--cluster 'gce'"), lines, strict=True)
    ] == [True] * 5
    with pytest.raises(TrainstackError, match=r"name them with --namespace and --queue \(`kubectl get localqueues"):
        build_new_files(make_request(profile="tenant"), INSTALLATION, virtualenv=False)


@pytest.mark.parametrize("word", ["null", "true", "1e5", "0x1f", "007", "12", "on", "2024-01-01", "0o17", "1-2"])
def test_a_name_that_yaml_reads_as_something_else(folder: Path, word: str) -> None:
    """The name is quoted: our loader and the engine's read a string."""
    texts = build_new_files(
        make_request(name=word, environment=word, namespace=word, queue=word), INSTALLATION, virtualenv=False
    )
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (run,) = load(folder, word).workloads.runs
    assert (run.namespace, run.queue) == (word, word)
    assert read_map(folder, "Pulumi.yaml", []).name == word
    assert yaml.safe_load(texts["Pulumi.yaml"])["name"] == word


def test_the_engine_uses_the_projects_environment_if_there_is_one(folder: Path) -> None:
    """Otherwise it uses the Python of the shell; an upgrade keeps the choice."""
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "python").touch()
    trainstack("init", "--profile", "owner", "--cluster", "kind")
    runtime = yaml.safe_load((folder / "Pulumi.yaml").read_text())["runtime"]
    assert runtime == {"name": "python", "options": {"virtualenv": ".venv"}}
    shutil.rmtree(folder / ".venv")
    assert "Pulumi.yaml: unchanged" in trainstack("init", "--upgrade").stderr
    assert (
        "options"
        not in yaml.safe_load(build_owned_files("lab", INSTALLATION, virtualenv=False)["Pulumi.yaml"])["runtime"]
    )


def test_the_program_has_three_lines() -> None:
    """The program is the same as that of this repository."""
    text = build_owned_files("lab", INSTALLATION, virtualenv=False)["__main__.py"]
    stamp, _, program = text.partition("\n")
    assert stamp.startswith("# Written by")
    assert program == (ROOT / "__main__.py").read_text()
    assert len([line for line in program.splitlines() if line]) == 3


def test_an_upgrade_renews_unedited_files(folder: Path) -> None:
    """It shows the difference, and leaves the user's files alone. A second one changes nothing."""
    trainstack("init", "--profile", "owner", "--cluster", "kind")
    for path, text in build_owned_files("lab", OLD_INSTALLATION, virtualenv=False).items():
        (folder / path).write_text(text, newline="\r\n" if path == ".gitignore" else "")
    (folder / "Pulumi.dev.yaml").write_text("config: {}\n")
    before = files(folder)
    planned = trainstack("init", "--upgrade", "--dry-run")
    assert files(folder) == before
    result = trainstack("init", "--upgrade")
    assert (result.exit_code, result.stdout) == (0, planned.stdout)
    assert "-typer==0.28.0 --hash=sha256:03\n+typer==0.29.2 --hash=sha256:02" in result.stdout
    assert "requirements.txt: renewed" in result.stderr
    assert "requirements-trainstack.txt: renewed" in result.stderr
    assert "Next:\n  mkdir -p wheels && cp /w/trainstack-1.whl wheels/\n" in result.stderr
    fresh = build_owned_files("lab", INSTALLATION, virtualenv=False)
    assert files(folder) == {**before, **fresh}
    result = trainstack("init", "--upgrade")
    assert (result.exit_code, result.stdout) == (0, "")


def test_an_upgrade_keeps_edited_files(folder: Path) -> None:
    """It shows what to apply; with the first line applied, the file counts as upgraded. Deleted files stay away."""
    trainstack("init", "--profile", "owner", "--cluster", "kind")
    old = build_owned_files("lab", OLD_INSTALLATION, virtualenv=False)
    requirements = folder / "requirements.txt"
    requirements.write_text(old["requirements.txt"] + "# mine\n")
    with (folder / "Pulumi.yaml").open("a") as file:
        file.write("backend: {url: 's3://team'}\n")
    (folder / ".gitignore").unlink()
    result = trainstack("init", "--upgrade")
    assert result.exit_code == 1
    assert "these files were edited and are kept: requirements.txt; apply the difference" in result.stderr
    assert "-# mine" in result.stdout
    assert "Pulumi.yaml: unchanged" in result.stderr
    assert ".gitignore: missing" in result.stderr
    assert not (folder / ".gitignore").exists()
    assert requirements.read_text().endswith("# mine\n")
    fresh = build_owned_files("lab", INSTALLATION, virtualenv=False)["requirements.txt"]
    requirements.write_text(fresh + "# mine\n")
    assert trainstack("init", "--upgrade").exit_code == 0


def test_a_file_of_others_is_edited() -> None:
    """A file without the first line of trainstack is never renewed."""
    fresh = build_owned_files("lab", INSTALLATION, virtualenv=False)
    assert {owned.outcome for owned in renew_owned_files(dict.fromkeys(fresh, "mine\n"), fresh).values()} == {"edited"}


def test_there_is_nothing_to_upgrade(folder: Path) -> None:
    """The remedy is to create a project."""
    result = trainstack("init", "--upgrade")
    assert result.exit_code == 1
    assert "create a project with --profile and --cluster" in result.stderr


def test_the_next_steps_may_be_pasted(folder: Path) -> None:
    """A folder with a space is one word of the shell."""
    result = trainstack("init", "my lab", "--profile", "owner", "--cluster", "kind", "--name", "lab")
    assert f"\n  cd '{folder / 'my lab'}'\n  git init\n" in result.stderr


def test_no_project_here(folder: Path) -> None:
    """Commands name `init` as the remedy."""
    result = trainstack("render", "-s", "dev")
    assert result.exit_code == 2
    assert "or create one with `trainstack init`" in result.stderr


def test_editors_find_the_schemas(folder: Path) -> None:
    """They are at the paths in the first lines of the files, and git ignores them."""
    trainstack("init", "--profile", "owner", "--cluster", "kind")
    for path in ("Pulumi.dev.yaml", "workloads/hello/workload.yaml"):
        reference = re.search(r"\$schema=(\S+)", (folder / path).read_text())
        assert reference is not None
        assert ((folder / path).parent / reference[1]).is_file()
    assert "/.trainstack/" in (folder / ".gitignore").read_text()


def test_the_workflow_is_safe() -> None:
    """Actions are pinned by commit, foreign text never becomes a command, and one job may write comments."""
    text = build_owned_files("lab", INSTALLATION, virtualenv=False)[".github/workflows/trainstack.yml"]
    workflow: dict[str, Any] = yaml.load(text, Loader=yaml.BaseLoader)
    assert [line for line in text.splitlines() if "uses:" in line and not PINNED.search(line)] == []
    jobs = workflow["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    assert [step["run"] for step in steps if "${{" in step.get("run", "")] == []
    assert all(step["with"]["persist-credentials"] == "false" for step in steps if "checkout@" in step.get("uses", ""))
    assert (workflow["permissions"], list(workflow["on"])) == ({"contents": "read"}, ["pull_request"])
    assert {name: job["permissions"] for name, job in jobs.items() if "permissions" in job} == {
        "comment": {"pull-requests": "write"}
    }
    assert {name for name, job in jobs.items() if "secrets." in str(job)} == {"preview"}
    # A change that cannot be applied fails the preview, whose report the comment needs.
    assert [step.get("if") for step in jobs["preview"]["steps"] if "upload-artifact@" in step.get("uses", "")] == [
        "always()"
    ]
    pinned = {step["uses"] for step in steps if step.get("uses", "").startswith("actions/")}
    known = "".join(file.read_text() for file in (ROOT / ".github" / "workflows").glob("*.yml"))
    assert [action for action in pinned if action not in known and "setup-python" not in action] == []


def test_the_workflow_installs_by_hash_and_never_by_name() -> None:
    """Whoever registers the name on an index would run code beside the preview's credentials."""
    text = build_owned_files("lab", INSTALLATION, virtualenv=False)[".github/workflows/trainstack.yml"]
    jobs = yaml.load(text, Loader=yaml.BaseLoader)["jobs"]
    scripts = [step["run"] for job in jobs.values() for step in job["steps"] if "pip install" in step.get("run", "")]
    assert len(scripts) == len(jobs)
    installs = {line.strip() for script in scripts for line in script.splitlines() if "pip install" in line}
    assert installs == {
        "python -m pip install --require-hashes --requirement requirements.txt",
        "python -m pip install --no-deps --no-build-isolation --requirement requirements-trainstack.txt",
    }


def test_a_wheel_is_copied_into_the_project(folder: Path) -> None:
    """The next steps have the command, before the files are committed."""
    result = trainstack("init", "--profile", "owner", "--cluster", "kind")
    assert WHEEL.requirement in (folder / ORIGIN_FILE).read_text().splitlines()
    steps = result.stderr.partition("Next:\n")[2].splitlines()
    copy, commit = (next(line for line in steps if word in line) for word in (" cp ", "git commit"))
    assert copy == "  mkdir -p wheels && cp /w/trainstack-1.whl wheels/"
    assert steps.index(copy) < steps.index(commit)
    assert " wheels && git commit" in commit


def test_an_origin_that_no_workflow_reaches_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The project works on this machine; the requirements name what is missing."""
    problem = Installation(Origin(problem="it was installed from a folder, file:///src"), "typer==1 --hash=sha256:02")
    monkeypatch.setattr(init, "_installation", lambda: problem)
    result = trainstack("init", "--profile", "owner", "--cluster", "kind")
    assert result.exit_code == 0
    assert "The workflow cannot install Trainstack: it was installed from a folder, file:///src." in result.stderr
    assert "# It is missing: it was installed from a folder, file:///src." in (folder / ORIGIN_FILE).read_text()
    assert "requirements-trainstack.txt: unchanged" in trainstack("init", "--upgrade").stderr


def test_an_upgrade_keeps_a_requirement_that_works(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A colleague with an installation from a folder does not break the project's workflow."""
    trainstack("init", "--profile", "owner", "--cluster", "kind")
    problem = Installation(Origin(problem="it was installed from a folder, file:///src"), "typer==1 --hash=sha256:02")
    monkeypatch.setattr(init, "_installation", lambda: problem)
    result = trainstack("init", "--upgrade")
    assert result.exit_code == 1
    assert "requirements-trainstack.txt is kept, and not for the version that is installed here" in result.stderr
    assert WHEEL.requirement in (folder / ORIGIN_FILE).read_text()
    assert "requirements.txt: renewed" in result.stderr


def test_published_releases_are_pinned(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainer's project publishes none. Nothing is downloaded for a tenant, or if the files cannot be written."""
    requests: list[str] = []

    def download(title: str, url: str, _: object) -> str:
        requests.append(url)
        return "ab" * 32

    monkeypatch.setattr(init, "fetch_unpinned", download)
    trainstack("init", "tenant", "--profile", "tenant", "--cluster", "eks", *NAMES)
    assert requests == []
    assert trainstack("init", "--profile", "owner", "--cluster", "eks").exit_code == 0
    addresses = {
        operator: f"https://github.com/kubernetes-sigs/{operator}/releases/download/{version}/manifests.yaml"
        for operator, version in (("kueue", "v0.19.2"), ("jobset", "v0.12.0"))
    }
    assert requests == [*addresses.values()]
    installs = load(folder, "dev").operators.installs
    for operator, url in addresses.items():
        manifest = installs[operator].manifest
        assert (manifest.url, manifest.sha256) == (url, "ab" * 32)
        assert f"/{manifest.version}/" in url
    assert installs["trainer"].manifest.url is None
    assert trainstack("init", "--profile", "owner", "--cluster", "eks").exit_code == 1
    assert requests == [*addresses.values()]


def test_without_a_network_all_releases_are_built(folder: Path) -> None:
    """The notes have the cause."""
    result = trainstack("init", "--profile", "owner", "--cluster", "kind")
    for operator in ("kueue", "jobset"):
        assert f"note: the published release of {operator} was not downloaded: github.com cannot" in result.stderr
    assert "manifest-missing" not in result.stderr
    assert {install.manifest.url for install in load(folder, "dev").operators.installs.values()} == {None}


def test_runs_of_an_owners_project_select_a_priority(folder: Path) -> None:
    """The documentation's examples use these classes."""
    trainstack("init", "--profile", "owner", "--cluster", "kind")
    assert [item.name for item in load(folder, "dev").queues.priority_classes] == ["low", "normal", "high"]

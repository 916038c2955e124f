"""Mistakes of new users: each fails with a message that has cause and remedy, and changes nothing."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.project import COMMAND_SECONDS, ROOT, CommandResult, Project, eventually
from trainstack.local_cluster.cluster import LocalCluster

pytestmark = pytest.mark.cluster

Config = dict[str, Any]
Variables = Mapping[str, str | None]


@pytest.fixture(scope="module")
def copy(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Copy the project for the new user."""
    return Project.copy(tmp_path_factory.mktemp("newcomer"), cluster)


@pytest.fixture(scope="module")
def newcomer(copy: Project) -> Project:
    """Return an environment like dev that was never deployed."""
    return copy.other_stack("newcomer", dev_config())


@pytest.fixture(autouse=True)
def _as_dev(newcomer: Project) -> Iterator[None]:
    """Reset the environment before each mistake, and check afterwards that nothing was deployed."""
    newcomer.write_stack(newcomer.stack, dev_config())
    yield
    assert deployed_urns(newcomer) == []
    assert newcomer.select(KINDS, f"trainstack.dev/stack={newcomer.stack}") == []


KINDS = "namespaces,storageclasses,persistentvolumeclaims,configmaps,deployments,jobs"
"""The kinds of dev that every cluster has."""


def dev_config() -> Config:
    """Return the configuration in `Pulumi.dev.yaml`."""
    return dict(yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())["config"])


def deployed_urns(project: Project) -> list[str]:
    """Return the URNs of the objects in the stack's state."""
    return [resource["urn"] for resource in project.resources() if not resource["type"].startswith("pulumi:")]


def assert_up_refused(project: Project, *words: str, environment: Variables | None = None) -> CommandResult:
    """Assert that `trainstack up` fails with these words, and return its result."""
    done = project.run(["up", "--yes", "-s", project.stack], trainstack=True, environment=environment)
    assert_failed(done, *words)
    return done


def assert_failed(done: CommandResult, *words: str) -> None:
    """Assert that the command failed with these words in its output and without a traceback."""
    assert done.code != 0, done.text
    assert "Traceback" not in done.text
    for word in words:
        assert word in done.text


def line_of(project: Project, word: str) -> str:
    """Return file and line of a word in the stack's settings, in the format of messages."""
    file = project.root / f"Pulumi.{project.stack}.yaml"
    number = next(number for number, line in enumerate(file.read_text().splitlines(), 1) if word in line)
    return f"{file.name}:{number}"


def test_an_environment_without_a_file(copy: Project) -> None:
    """The message lists the existing environments, and no file or stack is created for a mistyped name."""
    project = Project(copy.root, copy.kubeconfig, "production", copy.variables)
    assert_failed(project.pulumi("preview"), "no stack named 'production' found")
    for words in (["up", "-y"], ["preview"], ["env"], ["status"], ["destroy", "-y"]):
        done = project.run([*words, "-s", "production"], trainstack=True)
        assert_failed(done, "create Pulumi.production.yaml", "newcomer, prod")
    assert not (copy.root / "Pulumi.production.yaml").exists()
    assert "production" not in copy.run(["pulumi", "stack", "ls"]).out


def test_an_environment_without_settings(newcomer: Project) -> None:
    """`pulumi stack init` leaves such a file: it has only the salt of the passphrase."""
    newcomer.write_stack(newcomer.stack, {})
    assert_up_refused(
        newcomer, "Pulumi.newcomer.yaml: the environment declares nothing", "`trainstack:<section>:`", "dev"
    )


def test_all_faults_of_a_file_are_reported_with_their_lines(newcomer: Project) -> None:
    """An unknown key, with the nearest valid one, and an invalid quantity."""

    def edit(config: Config) -> None:
        (volume,) = config["trainstack:storage"]["volumes"]
        volume["storageClas"] = volume.pop("storageClass")
        volume["size"] = "2GB"

    newcomer.edit_stack(edit)
    words = (
        f"{line_of(newcomer, 'storageClas:')}: storage.volumes[training]: unknown key storageClas",
        "did you mean storageClass?",
        f"{line_of(newcomer, '2GB')}: storage.volumes[training].size: ",
        "'2GB' is not a quantity",
        '"1Gi"',
    )
    assert_up_refused(newcomer, *words)
    assert_failed(newcomer.pulumi("up", "--yes", "--skip-preview"), *words)
    # A preview fails in the same place.
    assert_failed(newcomer.pulumi("preview"), *words)


def test_unknown_references_are_reported_together(newcomer: Project) -> None:
    """A queue that the namespace does not have, and a folder without a Dockerfile, before any image is built."""

    def edit(config: Config) -> None:
        (run,) = config["trainstack:workloads"]["runs"]
        run["queue"] = "reserch"
        run["image"] = {"build": "trainstack/runs/wrapper"}

    newcomer.edit_stack(edit)
    assert_up_refused(
        newcomer,
        f"{line_of(newcomer, 'reserch')}: workloads.runs[digits].queue: ",
        "local queue 'reserch' is not declared in namespace research",
        "did you mean research?",
        f"{line_of(newcomer, 'trainstack/runs/wrapper')}: workloads.runs[digits].image.build: "
        "file trainstack/runs/wrapper/Dockerfile does not exist",
        "image: {name: ",
    )


def test_a_missing_or_broken_kubeconfig(newcomer: Project, tmp_path: Path) -> None:
    """The message names the file and the setting that selects another one."""
    assert_up_refused(
        newcomer,
        f"no kubeconfig at {tmp_path / 'missing'}",
        "set KUBECONFIG to your cluster's file",
        environment={"KUBECONFIG": str(tmp_path / "missing")},
    )
    (tmp_path / "broken").write_text("clusters: [")
    done = newcomer.pulumi("preview", environment={"KUBECONFIG": str(tmp_path / "broken")})
    assert_failed(done, f"{tmp_path / 'broken'} is not a usable kubeconfig", "kubectl config get-contexts")


def test_an_unknown_context_of_the_kubeconfig(newcomer: Project) -> None:
    """The message names context, file and setting."""
    newcomer.edit_stack(lambda config: config.update({"trainstack:cluster": {"context": "elsewhere"}}))
    assert_up_refused(newcomer, "context 'elsewhere' of", str(newcomer.kubeconfig), "trainstack:cluster: context")


def test_the_state_is_kept_if_the_cluster_is_unreachable(dev: Project, tmp_path: Path) -> None:
    """No object is removed from the state, not even with `--refresh`."""
    environment = {"KUBECONFIG": str(unreachable(dev.kubeconfig, tmp_path / "unreachable"))}
    before = deployed_urns(dev)
    assert before
    expected = ("cannot reach the cluster of context", "https://127.0.0.1:9", str(tmp_path), "check that it is running")
    assert_up_refused(dev, *expected, environment=environment)
    assert_failed(dev.pulumi("preview", environment=environment), *expected)
    for command in (["status"], ["destroy", "--yes"], ["destroy", "--keep-platform", "--yes"]):
        assert_failed(dev.run([*command, "-s", "dev"], trainstack=True, environment=environment), *expected)
    for words in (("up",), ("destroy", "--run-program")):
        done = dev.pulumi(*words, "--yes", "--skip-preview", "--refresh", environment=environment)
        assert_failed(done, "unreachable")
    assert deployed_urns(dev) == before
    assert dev.changes("--refresh") == {}


def unreachable(kubeconfig: Path, to: Path) -> Path:
    """Write a kubeconfig whose server is a closed port of this machine, and return its path."""
    config = yaml.safe_load(kubeconfig.read_text())
    for entry in config["clusters"]:
        entry["cluster"]["server"] = "https://127.0.0.1:9"
    to.write_text(yaml.safe_dump(config))
    return to


@pytest.mark.parametrize(
    ("variables", "engine"),
    [
        ({"PULUMI_CONFIG_PASSPHRASE": "wrong", "PULUMI_CONFIG_PASSPHRASE_FILE": None}, "incorrect passphrase"),
        ({"PULUMI_CONFIG_PASSPHRASE_FILE": "/nonexistent/passphrase"}, "/nonexistent/passphrase: no such file"),
    ],
    ids=["wrong", "no such file"],
)
def test_an_invalid_passphrase(newcomer: Project, variables: Variables, engine: str) -> None:
    """The engine reports the fault; `trainstack` adds the source of the passphrase."""
    up = assert_up_refused(newcomer, engine, environment=variables)
    assert_failed(up, ".trainstack/passphrase", "PULUMI_CONFIG_PASSPHRASE_FILE")


def test_a_missing_passphrase(newcomer: Project) -> None:
    """The engine names its variables; `trainstack` needs neither of them for an environment of this checkout."""
    unset = {"PULUMI_CONFIG_PASSPHRASE": None, "PULUMI_CONFIG_PASSPHRASE_FILE": None}
    for words in (["preview"], ["up", "--yes", "--skip-preview"]):
        done = newcomer.pulumi(*words, environment=unset)
        assert_failed(done, "PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE")
    env = newcomer.run(["env", "-s", newcomer.stack], trainstack=True, environment=unset)
    assert f"PULUMI_CONFIG_PASSPHRASE_FILE={newcomer.root}/.trainstack/passphrase" in env.out


def test_status_names_an_image_that_cannot_be_pulled(copy: Project) -> None:
    """The run exists but its pods cannot start; `status` has the image and the remedy."""
    image = "registry.local/trainstack/nonesuch:1"
    run = {"name": "lost", "kind": "Job", "namespace": "lost", "managed": False, "image": {"name": image}}
    namespaces = {"namespaces": [{"name": "lost"}]}
    config = {
        "trainstack:environment": namespaces,
        "trainstack:queues": {"priorityClasses": None},
        "trainstack:workloads": {"runs": [{**run, "runAsUser": 1000}]},
    }
    project = copy.other_stack("lost", config)
    try:
        done = project.up()
        assert done.code == 0, done.text
        words = "".join(f"ImagePullBackOff (the image {image} cannot be pulled: build and push it".split())
        eventually("the kubelet backs off", lambda: waiting_reasons(project) == ["ImagePullBackOff"])

        def has_reason() -> bool:
            return words in "".join(project.trainstack("status").out.split())

        # The reason differs while the kubelet retries the pull.
        eventually("status gives the reason", has_reason, every=COMMAND_SECONDS)
    finally:
        project.take_down()


def waiting_reasons(project: Project) -> list[str]:
    """Return the reasons of the run's waiting containers."""
    pods = project.select("pods", "trainstack.dev/workload=lost", "lost")
    states = [status["state"] for pod in pods for status in pod["status"].get("containerStatuses", ())]
    return [state["waiting"].get("reason", "") for state in states if "waiting" in state]

"""A newcomer's mistakes: each gets a message that says what is wrong and what to do, and changes nothing."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.project import COMMAND_SECONDS, ROOT, Done, Project, eventually
from trainstack.dev.cluster.cluster import Cluster

pytestmark = pytest.mark.cluster

Config = dict[str, Any]
Variables = Mapping[str, str | None]


@pytest.fixture(scope="module")
def copy(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The newcomer's copy of the project."""
    return Project.copy(tmp_path_factory.mktemp("newcomer"), cluster)


@pytest.fixture(scope="module")
def newcomer(copy: Project) -> Project:
    """An environment in it like dev, which has never been up."""
    return copy.other("newcomer", dev_config())


@pytest.fixture(autouse=True)
def _as_dev(newcomer: Project) -> Iterator[None]:
    """Each mistake is made in an environment that is right otherwise."""
    newcomer.write_stack(newcomer.stack, dev_config())
    yield
    assert declared(newcomer) == []
    assert newcomer.select(KINDS, f"trainstack.dev/stack={newcomer.stack}") == []


KINDS = "namespaces,storageclasses,persistentvolumeclaims,configmaps,deployments,jobs"
"""Of what dev declares, the kinds that every cluster has."""


def dev_config() -> Config:
    """What `Pulumi.dev.yaml` declares."""
    return dict(yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())["config"])


def declared(project: Project) -> list[str]:
    """The objects that the stack's state knows, by URN."""
    return [each["urn"] for each in project.resources() if not each["type"].startswith("pulumi:")]


def refused(project: Project, *words: str, environment: Variables | None = None) -> Done:
    """Plain `pulumi up` and `trainstack up` end with these words and without a traceback; the latter's end."""
    says(project.pulumi("up", "--yes", "--skip-preview", environment=environment), *words)
    done = project.run(["up", "--yes", "-s", project.stack], trainstack=True, environment=environment)
    says(done, *words)
    return done


def says(done: Done, *words: str) -> None:
    """A failed command told the person all of this, and nothing in the language of programs."""
    assert done.code != 0, done.text
    assert "Traceback" not in done.text
    for each in words:
        assert each in done.text


def line_of(project: Project, word: str) -> str:
    """The place of a word in the stack's file, as messages write it."""
    file = project.root / f"Pulumi.{project.stack}.yaml"
    number = next(number for number, line in enumerate(file.read_text().splitlines(), 1) if word in line)
    return f"{file.name}:{number}"


def test_an_environment_without_a_file_is_not_there(copy: Project) -> None:
    """Those that there are are named; nothing is made of a word that was mistyped."""
    project = Project(copy.root, copy.kubeconfig, "production", copy.variables)
    says(project.pulumi("preview"), "no stack named 'production' found")
    for words in (["up", "-y"], ["preview"], ["env"], ["status"], ["destroy", "-y"]):
        done = project.run([*words, "-s", "production"], trainstack=True)
        says(done, "create Pulumi.production.yaml", "newcomer, prod")
    assert not (copy.root / "Pulumi.production.yaml").exists()
    assert "production" not in copy.run(["pulumi", "stack", "ls"]).out


def test_an_environment_that_declares_nothing_is_told_how_to_begin(newcomer: Project) -> None:
    """As `pulumi stack init` leaves its file: with the salt of the passphrase and no settings."""
    newcomer.write_stack(newcomer.stack, {})
    refused(newcomer, "Pulumi.newcomer.yaml: the environment declares nothing", "`trainstack:<section>:`", "dev")


def test_faults_of_the_file_are_told_at_once_each_with_its_line(newcomer: Project) -> None:
    """An unknown key with the nearest that there is, and a quantity that is none."""

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
    refused(newcomer, *words)
    # A preview runs the same program to the same place.
    says(newcomer.pulumi("preview"), *words)


def test_names_that_name_nothing_are_told_at_once(newcomer: Project) -> None:
    """A queue that the namespace does not have, and a folder without a Dockerfile: before anything is built."""

    def edit(config: Config) -> None:
        (run,) = config["trainstack:workloads"]["runs"]
        run["queue"] = "reserch"
        run["image"] = {"build": "trainstack/runs/wrapper"}

    newcomer.edit_stack(edit)
    refused(
        newcomer,
        f"{line_of(newcomer, 'reserch')}: workloads.runs[digits].queue: ",
        "local queue 'reserch' is not declared in namespace research",
        "did you mean research?",
        f"{line_of(newcomer, 'trainstack/runs/wrapper')}: workloads.runs[digits].image.build: "
        "file trainstack/runs/wrapper/Dockerfile does not exist",
        "image: {name: ",
    )


def test_a_kubeconfig_that_is_not_there_or_none_at_all(newcomer: Project, tmp_path: Path) -> None:
    """The file is named, and what to set instead."""
    refused(
        newcomer,
        f"no kubeconfig at {tmp_path / 'missing'}",
        "set KUBECONFIG to your cluster's file",
        environment={"KUBECONFIG": str(tmp_path / "missing")},
    )
    (tmp_path / "broken").write_text("clusters: [")
    done = newcomer.pulumi("preview", environment={"KUBECONFIG": str(tmp_path / "broken")})
    says(done, f"{tmp_path / 'broken'} is not a usable kubeconfig", "kubectl config get-contexts")


def test_a_context_that_the_kubeconfig_does_not_have(newcomer: Project) -> None:
    """Context and file are named, and where the context is set."""
    newcomer.edit_stack(lambda config: config.update({"trainstack:cluster": {"context": "elsewhere"}}))
    refused(newcomer, "context 'elsewhere' of", str(newcomer.kubeconfig), "trainstack:cluster: context")


def test_an_unreachable_cluster_leaves_the_state_of_what_runs_there(dev: Project, tmp_path: Path) -> None:
    """Nothing is taken for gone because nobody answers, not even when asked to refresh."""
    environment = {"KUBECONFIG": str(unreachable(dev.kubeconfig, tmp_path / "unreachable"))}
    before = declared(dev)
    assert before
    told = ("cannot reach the cluster of context", "https://127.0.0.1:9", str(tmp_path), "check that it is running")
    refused(dev, *told, environment=environment)
    says(dev.pulumi("preview", environment=environment), *told)
    for command in (["status"], ["destroy", "--yes"], ["destroy", "--keep-platform", "--yes"]):
        says(dev.run([*command, "-s", "dev"], trainstack=True, environment=environment), *told)
    for words in (("up",), ("destroy", "--run-program")):
        done = dev.pulumi(*words, "--yes", "--skip-preview", "--refresh", environment=environment)
        says(done, "unreachable")
    assert declared(dev) == before
    assert dev.changes("--refresh") == {}


def unreachable(kubeconfig: Path, to: Path) -> Path:
    """A kubeconfig whose server is a port of this machine on which nobody listens."""
    held = yaml.safe_load(kubeconfig.read_text())
    for each in held["clusters"]:
        each["cluster"]["server"] = "https://127.0.0.1:9"
    to.write_text(yaml.safe_dump(held))
    return to


@pytest.mark.parametrize(
    ("variables", "engine"),
    [
        ({"PULUMI_CONFIG_PASSPHRASE": "wrong", "PULUMI_CONFIG_PASSPHRASE_FILE": None}, "incorrect passphrase"),
        ({"PULUMI_CONFIG_PASSPHRASE_FILE": "/nonexistent/passphrase"}, "/nonexistent/passphrase: no such file"),
    ],
    ids=["wrong", "no such file"],
)
def test_a_passphrase_that_does_not_fit(newcomer: Project, variables: Variables, engine: str) -> None:
    """The engine says so; `trainstack` adds where the passphrase comes from."""
    up = refused(newcomer, engine, environment=variables)
    says(up, ".trainstack/passphrase", "PULUMI_CONFIG_PASSPHRASE_FILE")


def test_a_passphrase_that_is_not_set(newcomer: Project) -> None:
    """The engine names the variables; `trainstack` needs none of them for an environment of this checkout."""
    nothing = {"PULUMI_CONFIG_PASSPHRASE": None, "PULUMI_CONFIG_PASSPHRASE_FILE": None}
    for words in (["preview"], ["up", "--yes", "--skip-preview"]):
        done = newcomer.pulumi(*words, environment=nothing)
        says(done, "PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE")
    env = newcomer.run(["env", "-s", newcomer.stack], trainstack=True, environment=nothing)
    assert f"PULUMI_CONFIG_PASSPHRASE_FILE={newcomer.root}/.trainstack/passphrase" in env.out


def test_an_image_that_no_registry_has_is_told_by_status(copy: Project) -> None:
    """The run stands, its pods cannot start: `status` says which image, and what to do."""
    image = "registry.local/trainstack/nonesuch:1"
    run = {"name": "lost", "kind": "Job", "namespace": "lost", "managed": False, "image": {"name": image}}
    namespaces = {"namespaces": [{"name": "lost"}]}
    config = {
        "trainstack:environment": namespaces,
        "trainstack:queues": {"priorityClasses": None},
        "trainstack:workloads": {"runs": [{**run, "runAsUser": 1000}]},
    }
    project = copy.other("lost", config)
    try:
        done = project.up()
        assert done.code == 0, done.text
        words = "".join(f"ImagePullBackOff (the image {image} cannot be pulled: build and push it".split())
        eventually("the kubelet backs off", lambda: waiting(project) == ["ImagePullBackOff"])

        def has_reason() -> bool:
            return words in "".join(project.trainstack("status").out.split())

        # The kubelet pulls again meanwhile, with another reason.
        eventually("status gives the reason", has_reason, every=COMMAND_SECONDS)
    finally:
        project.take_down()


def waiting(project: Project) -> list[str]:
    """Why containers of the run wait."""
    pods = project.select("pods", "trainstack.dev/workload=lost", "lost")
    states = [status["state"] for pod in pods for status in pod["status"].get("containerStatuses", ())]
    return [state["waiting"].get("reason", "") for state in states if "waiting" in state]

"""Runs, Sweep and Secrets: launches follow their dependencies, are claimed, and never replaced while they train."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pulumi

from tests.unit.components.declare import declare
from tests.unit.make import make_secret
from trainstack.components.launch_claims import LaunchClaim
from trainstack.components.launches import LaunchOptions
from trainstack.components.runs import Runs
from trainstack.components.secrets import Secrets
from trainstack.components.sweeps import Sweep
from trainstack.objects.labels import LAUNCH
from trainstack.runs.ledgers import Ledger
from trainstack.settings.model import Settings
from trainstack.settings.sections.secrets import Secrets as SecretsSettings
from trainstack.stack_objects.launch_groups import LaunchGroup
from trainstack.stack_objects.stack_objects import StackObjects


def make_object(kind: str, name: str) -> dict[str, Any]:
    """Return a manifest in the namespace `research`."""
    labels = {"app.kubernetes.io/managed-by": "trainstack"}
    metadata = {"name": name, "namespace": "research", "labels": labels}
    return {"apiVersion": "batch/v1" if kind == "Job" else "v1", "kind": kind, "metadata": metadata}


def make_launch(launch: str, name: str = "") -> dict[str, Any]:
    """Return a Job of a launch, by default with the launch's name."""
    job = make_object("Job", name or launch)
    job["metadata"]["labels"][LAUNCH] = launch
    return {**job, "spec": {}}


def make_group(*launches: Mapping[str, Any], **changes: Any) -> LaunchGroup:
    """Return a group of these launches, each with a ledger."""
    ledgers = [
        Ledger(
            run_id=body["metadata"]["labels"][LAUNCH],
            workload="digits",
            namespace="research",
            attempt=1,
            launch_name=body["metadata"]["labels"][LAUNCH],
            launch=body,
        )
        for body in launches
    ]
    return LaunchGroup(**{"stack": "dev", "launches": tuple(ledgers), "ledgers": tuple(ledgers), **changes})


def claimed(group: LaunchGroup, **options: Any) -> LaunchOptions:
    """Return the options of the training stack: each launch is claimed."""
    ledgers = group.ledger_config_maps
    claims = {
        launch.launch_name: LaunchClaim(launch=launch.launch, ledger=ledgers[launch.launch_name], ledger_version=None)
        for launch in group.launches
    }
    return LaunchOptions(claims=claims, **options)


def runs(*launches: Mapping[str, Any], **options: Any) -> Mapping[str, Any]:
    """Return the registrations of runs, with one wrapper."""
    group = make_group(*launches, files=(make_object("ConfigMap", "wrapper"),))
    return declare(lambda opts: Runs("runs", group, claimed(group, **options), opts))


def test_a_launch_follows_the_wrapper_and_precedes_its_ledger() -> None:
    """The ledger completes the claim that a hook creates before the launch."""
    found = runs(make_launch("digits-1-a"))
    launch, ledger = found["Job research/digits-1-a"], found["ConfigMap research/run-digits-1-a"]
    assert found["Runs runs"].type == "trainstack:training:Runs"
    assert found["Runs runs"].outputs == {"launches": ["research/digits-1-a"]}
    assert {launch.parent, ledger.parent, found["ConfigMap research/wrapper"].parent} == {"runs"}
    assert launch.dependencies == ["research/wrapper"]
    assert ledger.dependencies == ["research/digits-1-a"]
    assert launch.hooks == {
        "before_create": ["runs-claim"],
        "on_error": ["runs-release"],
    }
    assert "ignoreChanges" not in launch.options
    assert ledger.hooks == {"before_create": ["runs-confirm"], "before_update": ["runs-confirm"]}


def test_a_live_launch_is_never_edited() -> None:
    """Its manifest may differ, for example in its recorded commit."""
    found = runs(make_launch("digits-1-a"), live_objects={"digits-1-a": "research/digits-1-a"})
    assert found["Job research/digits-1-a"].options["ignoreChanges"] == ["metadata", "spec"]


def test_a_fixed_name_waits_for_the_launch_that_has_it() -> None:
    """Another launch replaces the object; the engine deletes the old one first."""
    found = runs(make_launch("digits-1-a", name="digits"))
    options = found["Job research/digits"].options
    assert options["replaceOnChanges"] == [f'metadata.labels["{LAUNCH}"]']
    assert options["deleteBeforeReplace"] is True
    assert options["hooks"]["before_create"] == ["research/digits-1-a-name-is-free", "runs-claim"]


def test_a_launch_with_a_generated_name_has_a_separate_provider() -> None:
    """Server-side apply cannot create an object whose name the API server chooses."""
    body = make_launch("digits-1-a")
    body["metadata"]["generateName"] = f"{body['metadata'].pop('name')}-"
    providers: list[pulumi.ProviderResource] = []

    def component(opts: pulumi.ResourceOptions) -> Runs:
        providers.append(pulumi.ProviderResource("kubernetes", "generating", {}))
        live = {"digits-1-a": "research/digits-x7k2p"}
        group = make_group(body)
        return Runs("runs", group, claimed(group, generating_provider=providers[0], live_objects=live), opts)

    found = declare(component, providers=("cluster", "generating"))
    launch = found["Job research/digits-1-a"]
    assert launch.options["provider"].endswith("::generating")
    assert launch.options["importId"] == "research/digits-x7k2p"
    assert found["ConfigMap research/run-digits-1-a"].options["provider"].endswith("::cluster")


def test_a_sweep_mounts_its_parameter_files() -> None:
    """They are created before its launches, and a companion before the launch that refers to it."""
    group = make_group(
        make_launch("search-1-a"),
        make_launch("search-2-a"),
        sweep="search",
        files=(make_object("ConfigMap", "sweep-search"),),
    )
    first, second = group.launches
    with_companion = replace(first, companions=(make_object("TrainingRuntime", "search-1-a"),))
    group = replace(group, launches=(with_companion, second))
    found = declare(lambda opts: Sweep("sweep-search", group, opts, launch_options=claimed(group)))
    assert found["Sweep sweep-search"].type == "trainstack:training:Sweep"
    assert found["Sweep sweep-search"].outputs == {"launches": ["research/search-1-a", "research/search-2-a"]}
    assert found["Job research/search-1-a"].dependencies == ["research/search-1-a", "research/sweep-search"]
    assert found["Job research/search-2-a"].dependencies == ["research/sweep-search"]
    companion = found["TrainingRuntime research/search-1-a"]
    assert companion.parent == "sweep-search"
    assert companion.hooks == {"after_create": ["research/search-1-a-seen"]}


def test_a_secret_is_encrypted_in_the_state() -> None:
    """The engine encrypts `data` and `stringData`, and the inputs are already secrets of the engine."""
    section = {"secrets": [{"name": "git", "namespace": "research", "values": {"username": "me", "password": "pw"}}]}

    def component(opts: pulumi.ResourceOptions) -> Secrets:
        values = pulumi.Output.secret(section)
        declared = StackObjects(Settings(stack="dev", secrets=SecretsSettings(secrets=(make_secret(),))))
        return Secrets("secrets", declared, values, opts)

    found = declare(component)
    secret = found["Secret research/git"]
    assert found["Secrets secrets"].outputs == {"names": ["research/git"]}
    assert secret.parent == "secrets"
    assert secret.options["additionalSecretOutputs"] == ["data", "stringData"]
    sealed = secret.inputs["data"]
    assert {key: value["value"] for key, value in sealed.items()} == {"username": "bWU=", "password": "cHc="}

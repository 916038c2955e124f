"""`trainstack check --cluster`: an environment held against what its cluster has."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainstack.cli.console import step
from trainstack.cli.session import Session
from trainstack.cli.unserved_images import unserved_images
from trainstack.declared.declared import Declared
from trainstack.declared.inputs import FAULTS
from trainstack.live.client import ClusterError
from trainstack.live.environment import read_environment
from trainstack.objects.labels import LAUNCH, RUN, SWEEP, WORKLOAD, Manifest
from trainstack.platform import probes
from trainstack.preflight import against_cluster
from trainstack.preflight.against_cluster import CLUSTER_UNREACHABLE, MANIFESTS_UNBUILT
from trainstack.preflight.finding import Checked, Finding
from trainstack.preflight.live_context import LiveContext, declared
from trainstack.preflight.operator_facts import OPERATORS
from trainstack.preflight.rule import Violation
from trainstack.runs.status.kinds import KINDS
from trainstack.settings.loading.load import Loaded
from trainstack.settings.model import Settings
from trainstack.settings.sections.operators import Operators


def with_cluster(found: Checked, session: Session, loaded: Loaded) -> Checked:
    """What was found in the files, with what the cluster tells beside it; an error where it cannot be read."""
    try:
        live = _on_cluster(session, loaded, found.findings)
    except ClusterError as error:
        message, _, remedy = str(error).partition("; ")
        path = "cluster" if loaded.settings.cluster.context is None else "cluster.context"
        unreachable = Finding.of(CLUSTER_UNREACHABLE, Violation(path, message, remedy), loaded.where(path))
        return Checked([*found.findings, unreachable], found.verdicts)
    # What the files cannot tell, the cluster has been asked.
    told = [finding for finding in found.findings if finding.severity != "unknown"]
    findings = sorted({*told, *live.findings}, key=lambda finding: finding.order)
    return Checked(findings, live.verdicts)


_ASKED = {*KINDS, "TrainingRuntime"} - {"TrainJob"}
"""What is sent as a dry run. A TrainJob is refused until its runtime is there, so the runtime is asked with."""


_THEN = "fix this, then run the check again"


def _on_cluster(session: Session, loaded: Loaded, in_files: Sequence[Finding]) -> Checked:
    settings = loaded.settings
    manifests, unbuilt = _built(session.root, settings)
    paths = {run.name: path for path, run in settings.trained()}
    asked = [(paths[manifest["metadata"]["labels"][WORKLOAD]], manifest) for manifest in _asked(manifests)]
    if settings.environment.profile == "owner":
        asked += [
            (OPERATORS[name].path, probe(session.stack))
            for name, probe in probes.BY_OPERATOR.items()
            if declared(settings, name)
        ]
    with step("reading the cluster", "2 s"):
        live = read_environment(settings, asked)
    launches = {
        (metadata["namespace"], name)
        for metadata in (manifest["metadata"] for manifest in manifests)
        if LAUNCH in metadata["labels"]
        for name in (metadata["labels"][RUN], metadata.get("name"))
        if name is not None
    }
    live = replace(live, unserved_images=unserved_images(session))
    context = LiveContext(Declared(settings), live, _images(manifests), launches)
    found = against_cluster.examine(context, loaded.places, in_files)
    placed = [replace(finding, where=loaded.where(finding.path)) for finding in unbuilt]
    return Checked([*placed, *found.findings], found.verdicts)


def _asked(manifests: Sequence[Manifest]) -> Iterator[Manifest]:
    """The launches; of a sweep, whose trials are alike, the first alone."""
    sweeps = set()
    for each in manifests:
        marks = each["metadata"]["labels"]
        if each["kind"] in _ASKED and RUN in marks and marks.get(SWEEP) not in sweeps:
            sweeps |= {marks[SWEEP]} if SWEEP in marks else set()
            yield each


def declared_manifests(root: Path, settings: Settings) -> list[Manifest]:
    """What an environment declares. Raises one of `FAULTS` where it cannot be built from the files."""
    return Declared.from_files(settings, root).manifests()


def _built(root: Path, settings: Settings) -> tuple[list[Manifest], list[Finding]]:
    """What the environment declares, as far as it can be built, and what cannot be."""
    try:
        return declared_manifests(root, settings), []
    except FAULTS as error:
        message = f"what the operators' releases would install is not checked: {error}"
        unknown = Finding.of(MANIFESTS_UNBUILT, Violation("operators", message, _THEN, "unknown"))
    try:
        return declared_manifests(root, settings.model_copy(update={"operators": Operators()})), [unknown]
    except FAULTS as error:
        message = f"what the runs would launch is not checked: {error}"
        return [], [Finding.of(MANIFESTS_UNBUILT, Violation("workloads", message, _THEN))]


def _images(manifests: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The images of the operators' controllers, as they would be installed."""
    found = {}
    for name, facts in OPERATORS.items():
        for body in manifests:
            if body["kind"] == "Deployment" and body["metadata"]["name"] in facts.names:
                containers = body["spec"]["template"]["spec"]["containers"]
                known = ("manager", body["metadata"]["name"])
                found[name] = next((one for one in containers if one["name"] in known), containers[0])["image"]
    return found

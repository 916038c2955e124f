"""`trainstack check`: what is wrong with an environment, from its files and, if asked, on its cluster."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from checks import against_cluster
from checks.admission.words import as_data, lines
from checks.cluster.client import ClusterError
from checks.cluster.environment import read_environment
from checks.finding import Checked, Finding
from checks.kinds import KINDS
from checks.live import OPERATORS, LiveScene, declared
from checks.preflight import examine
from cli.console import err, out, show_json, step
from cli.session import JsonOption, Session, StackOption, checkout
from manifests import probes
from manifests.labels import LAUNCH, RUN, SWEEP, WORKLOAD, Manifest
from settings.errors import SettingsError
from settings.load import Loaded, load_with_places
from settings.operators import Operators
from workloads import render

_STYLES = {"error": "red", "warning": "yellow", "unknown": "dim"}


def check(
    *,
    stack: StackOption = "dev",
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Hold it against its cluster too, which is only read.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Tell everything that is wrong with an environment, and whether each run will ever be admitted; fail on an error.

    From its files alone, and with --cluster also from what its cluster has: kinds, operators, classes, queues, nodes,
    and who uses the quota now.

    Examples:

      trainstack check -s dev

      trainstack check -s dev --cluster

      trainstack check -s dev --json
    """
    checked = _checked(stack, cluster=cluster)
    errors = sum(finding.stops for finding in checked.findings)
    if as_json:
        verdicts = [as_data(verdict) for verdict in checked.verdicts]
        show_json({"findings": [asdict(finding) for finding in checked.findings], "verdicts": verdicts})
    else:
        _show(stack, checked)
    if errors:
        raise typer.Exit(1)


def _show(stack: str, checked: Checked) -> None:
    told = [finding for finding in checked.findings if not finding.silenced]
    for finding in told:
        out.print(str(finding), style=_STYLES[finding.severity], markup=False)
    for line in lines(checked.verdicts):
        out.print(line, markup=False)
    errors, silenced = sum(finding.stops for finding in told), len(checked.findings) - len(told)
    said = f"{errors} errors, {len(told) - errors} other findings" if told else "nothing found"
    err.print(f"{stack}: {said}{f', {silenced} silenced' if silenced else ''}")


def _checked(stack: str, *, cluster: bool) -> Checked:
    """What the rules find, or why the files do not load, and the verdicts on the runs."""
    root = checkout()
    try:
        loaded = load_with_places(root, stack)
    except SettingsError as error:
        faults = [Finding("settings", "error", one.path, one.message, one.remedy, one.where) for one in error.findings]
        return Checked(faults, [])
    found = examine(loaded.settings, root, loaded.places)
    if not cluster:
        return found
    try:
        live = _on_cluster(Session.open(stack), loaded)
    except ClusterError as error:
        message, _, remedy = str(error).partition("; ")
        unreachable = Finding("cluster-unreachable", "error", "cluster", message, remedy)
        return Checked([*found.findings, unreachable], found.verdicts)
    # What the files cannot tell, the cluster has been asked.
    told = [finding for finding in found.findings if finding.severity != "unknown"]
    findings = sorted({*told, *live.findings}, key=lambda finding: finding.order)
    return Checked(findings, live.verdicts)


_ASKED = {*KINDS, "TrainingRuntime"} - {"TrainJob"}
"""What is sent as a dry run. A TrainJob is refused until its runtime is there, so the runtime is asked with."""


def _on_cluster(session: Session, loaded: Loaded) -> Checked:
    settings, manifests = loaded.settings, _manifests(session, loaded)
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
    return against_cluster.examine(LiveScene(settings, live, _images(manifests), launches), loaded.places)


def _asked(manifests: Sequence[Manifest]) -> Iterator[Manifest]:
    """The launches; of a sweep, whose trials are alike, the first alone."""
    sweeps = set()
    for each in manifests:
        marks = each["metadata"]["labels"]
        if each["kind"] in _ASKED and RUN in marks and marks.get(SWEEP) not in sweeps:
            sweeps |= {marks[SWEEP]} if SWEEP in marks else set()
            yield each


def _manifests(session: Session, loaded: Loaded) -> list[Manifest]:
    """What the environment declares; without what cannot be built from the files, which the preflight tells of."""
    settings = loaded.settings
    for attempt in (settings, settings.model_copy(update={"operators": Operators()})):
        try:
            inputs = render.read_inputs(attempt, session.root, commit="", cache=session.root / render.CACHE)
            return render.everything(attempt, inputs)
        except ValueError:
            continue
    return []


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

"""Verdicts on workloads whose pods are placed in a topology, by Kueue's own code.

The simulator compares quota, and does not place pods on nodes: where a topology decides, its verdict is `unknown`. The
program `kueue-judge` (docs/decisions/0018-second-judge.md) answers these from the nodes and pods of a cluster.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Protocol

from trainstack.kueue.judge_cases import judge_case
from trainstack.kueue.model import FlavorResource, Model, QueueState, Usage
from trainstack.kueue.quantities import resource_value
from trainstack.kueue.verdict import Domain, Outcome, PodSetAdmission, Reason, Verdict
from trainstack.settings.values.kubernetes import HOSTNAME

Body = Mapping[str, Any]
_NO_ASSIGNMENT = "couldn't assign flavors to pod set "


class JudgeError(Exception):
    """The failure of the program, also to answer a case."""


class Judge(Protocol):
    """Kueue's own code as a program."""

    @property
    def release(self) -> str:
        """The release of Kueue, such as `v0.15.2`."""

    def ask(self, cases: Sequence[Body]) -> Sequence[Body]:
        """Return an answer for each case. Raise JudgeError if the program fails."""


@dataclass(frozen=True)
class JudgeInputs:
    """The inputs of the program besides the snapshot."""

    judge: Judge | str
    """The program, or the reason why it is missing."""
    pods: Sequence[Body] | None
    """The pods that are bound to nodes; None: not readable."""
    release: str
    """The release of Kueue that admits the runs; empty if unknown."""

    def unavailable_reason(self, model: Model) -> str:
        """Return why the program cannot run; empty if it can."""
        inputs = {"nodes": model.nodes, "topologies": model.topologies, "pods of all namespaces": self.pods}
        unread_inputs = [name for name, objects in inputs.items() if objects is None]
        if unread_inputs:
            return f"these credentials cannot read {' and '.join(unread_inputs)}"
        if isinstance(self.judge, str):
            return self.judge
        if not self.release:
            return "the release of the running Kueue is unknown"
        if self.release != self.judge.release:
            return f"kueue-judge is of Kueue {self.judge.release}, but Kueue {self.release} admits the run"
        return ""


def needs_nodes(verdict: Verdict) -> bool:
    """Whether only the nodes of a topology are undecided."""
    return verdict.outcome == "unknown" and {reason.cause for reason in verdict.reasons} == {"topology"}


def judge_placements(
    verdicts: Mapping[str, Verdict], submissions: Mapping[str, Body], state: QueueState, inputs: JudgeInputs
) -> dict[str, Verdict]:
    """Return the verdicts that need nodes, by the workload's key, as Kueue's code decides them.

    `verdicts`: the simulator's, by key. `submissions`: the workloads as Kueue's objects.
    """
    open_verdicts = {key: verdict for key, verdict in verdicts.items() if needs_nodes(verdict)}
    if not open_verdicts:
        return {}
    problem = inputs.unavailable_reason(state.model)
    if problem or isinstance(inputs.judge, str) or inputs.pods is None:
        return {key: _keep_unknown(verdict, problem) for key, verdict in open_verdicts.items()}
    # Verdicts without a submission keep this reason; answers replace those of the others.
    new_verdicts = {
        key: _keep_unknown(verdict, "its manifest cannot be built") for key, verdict in open_verdicts.items()
    }
    bodies = {key: submissions[key] for key in open_verdicts if key in submissions}
    # Only a second case on an idle cluster separates what waits from what never fits.
    answers = _ask_judge(inputs.judge, state, inputs.pods, bodies, idle=False)
    refused_submissions = {
        key: bodies[key] for key, answer in answers.items() if not isinstance(answer, str) and _is_refused(answer)
    }
    idle_answers = _ask_judge(inputs.judge, state, inputs.pods, refused_submissions, idle=True)
    for key, answer in answers.items():
        blank_verdict, idle_answer = (
            replace(open_verdicts[key], reasons=(), judged_by=f"Kueue {inputs.judge.release}"),
            idle_answers.get(key, {}),
        )
        if isinstance(answer, str) or isinstance(idle_answer, str):
            new_verdicts[key] = _keep_unknown(
                open_verdicts[key], answer if isinstance(answer, str) else str(idle_answer)
            )
        elif _is_refused(answer):
            new_verdicts[key] = _refusal_verdict(blank_verdict, bodies[key], state.model, answer, idle_answer)
        else:
            new_verdicts[key] = _admission_verdict(blank_verdict, state.model, answer)
    return new_verdicts


def _ask_judge(
    judge: Judge, state: QueueState, pods: Sequence[Body], bodies: Mapping[str, Body], *, idle: bool
) -> dict[str, Body | str]:
    """Return the program's answers by key, or the reason why it is missing."""
    if not bodies:
        return {}
    try:
        (answer,) = judge.ask([judge_case(state, pods, bodies.values(), idle=idle)])
    except JudgeError as error:
        return dict.fromkeys(bodies, str(error))
    answers: list[Body] = answer.get("verdicts") or []
    return dict(zip_longest(bodies, answers, fillvalue=f"kueue-judge: {answer.get('error')}"))


def _is_refused(answer: Body) -> bool:
    return bool(answer["mode"] == "NoFit")


def _keep_unknown(verdict: Verdict, problem: str) -> Verdict:
    return replace(
        verdict, reasons=tuple(replace(reason, message=f"{reason.message}: {problem}") for reason in verdict.reasons)
    )


def _refusal_verdict(verdict: Verdict, submission: Body, model: Model, answer: Body, idle_answer: Body) -> Verdict:
    """Return the verdict on a refused workload. `idle_answer`: the answer on an idle cluster."""
    fits_idle = not _is_refused(idle_answer)
    # An autoscaler may add the nodes that are missing.
    outcome: Outcome = "waits" if fits_idle or model.has_autoscaler else "never fits"
    when = "now" if outcome == "waits" else "even without other workloads"
    message = _scheduler_reason((answer if fits_idle else idle_answer).get("message", ""))
    text = f"{_shortage_text(submission)} {when} (Kueue: {message})"
    reason = Reason("placement", text, verdict.path)
    return replace(verdict, outcome=outcome, reasons=(reason,), assigned=(), usage={}, borrowed={}, checks=())


def _admission_verdict(verdict: Verdict, model: Model, answer: Body) -> Verdict:
    if answer["mode"] == "Preempt":
        targets = tuple(sorted(answer.get("targets") or ()))
        without_assignment = replace(verdict, assigned=(), usage={}, borrowed={}, checks=())
        return replace(without_assignment, outcome="fits by preempting", preempts=targets)
    placements: Mapping[str, Body] = answer.get("placements") or {}
    usage: dict[FlavorResource, int] = {}
    pod_sets = []
    for body in answer["podSets"]:
        flavors = dict(body.get("flavors") or {})
        for resource, flavor in flavors.items():
            number = resource_value(resource, body["resourceUsage"][resource])
            usage[flavor, resource] = usage.get((flavor, resource), 0) + number
        domains = tuple(_domains(model, set(flavors.values()), placements.get(body["name"]) or {}))
        pod_sets.append(PodSetAdmission(body["name"], body["count"], flavors, domains))
    borrowed = _borrowing(answer, usage)
    queue = (model.cluster_queues or {})[verdict.cluster_queue]
    return replace(
        verdict,
        outcome="fits by borrowing" if borrowed else "fits",
        assigned=tuple(pod_sets),
        usage=usage,
        borrowed=borrowed,
        checks=queue.checks_on({flavor for flavor, _ in usage}),
    )


def _domains(model: Model, flavors: Collection[str], placement: Body) -> Iterator[Domain]:
    """Yield where pods are placed, at all levels; Kueue's assignment has only the host if that is the narrowest one."""
    levels = tuple(placement.get("levels") or ())
    topology_names = {flavor.topology for name in flavors if (flavor := (model.flavors or {}).get(name)) is not None}
    all_levels = next(((model.topologies or {})[name] for name in topology_names if name is not None), levels)
    hosts = {node.labels.get(HOSTNAME, ""): node.labels for node in model.nodes or ()}
    for domain in placement.get("domains") or ():
        values = tuple(domain["values"])
        if levels == (HOSTNAME,) and values[0] in hosts:
            labels = hosts[values[0]]
            yield Domain(all_levels, tuple(labels[level] for level in all_levels), domain["count"])
        else:
            yield Domain(levels, values, domain["count"])


def _borrowing(answer: Body, usage: Usage) -> dict[FlavorResource, int]:
    borrowed = {}
    for key, text in (answer.get("borrowed") or {}).items():
        flavor, _, resource = key.partition("/")
        borrowed[flavor, resource] = min(usage[flavor, resource], resource_value(resource, text))
    return borrowed


def _shortage_text(submission: Body) -> str:
    """Name what has no room: `no example.com/rack has room for the 6 pods`."""
    texts = []
    for pods in submission["spec"]["podSets"]:
        request, name = pods.get("topologyRequest") or {}, "" if pods["name"] == "main" else f"{pods['name']} "
        slice_level = request.get("podSetSliceRequiredTopology")
        if level := request.get("required"):
            texts.append(f"no {level} has room for the {pods['count']} {name}pods")
        elif slice_level:
            texts.append(f"no {slice_level} has room for a slice of {request['podSetSliceSize']} {name}pods")
    return " and ".join(texts) or "the nodes of the topology do not have room for the pods"


def _scheduler_reason(text: str) -> str:
    """Return the scheduler's reason without its prefix."""
    reason = text.partition(_NO_ASSIGNMENT)[2].partition(": ")[2]
    return reason or text

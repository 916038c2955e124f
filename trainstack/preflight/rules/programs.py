"""Rules about the programs of runs: what the wrapper refuses, and variables that nothing would expand."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainstack.preflight.examples import digits
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext
from trainstack.runs.errors import WorkloadError
from trainstack.runs.manifests.launched_pods import launched_pods
from trainstack.runs.manifests.pod_template import WRAPPER_SETTINGS
from trainstack.runs.manifests.trial_names import overrides_of
from trainstack.runs.manifests.trial_pod import NUMBER
from trainstack.runs.manifests.variable_expansion import environment, program
from trainstack.runs.names import indexed
from trainstack.runs.wrapper.run import WrapperError, WrapperSettings, parse_command, unknown_variables
from trainstack.settings.sections.sweeps import Sweep
from trainstack.settings.sections.workloads import PodOverrides, Workload
from trainstack.settings.values.credentials import concealed
from trainstack.settings.values.paths import child, elements

_OURS = "TRAINSTACK_"
_READ = (*WRAPPER_SETTINGS, "TRAINSTACK_RUN_ID", "TRAINSTACK_RECORD")
_REFERENCE = re.compile(
    r"(?<!\$)\$(?:(?P<bare>[A-Za-z_]\w*)|\{(?P<braces>[A-Za-z_]\w*)\}|\((?P<kubernetes>[A-Za-z_]\w*)\)"
    r"|\{[#!]?(?P<operator>[A-Za-z_]\w*)(?!\w)(?P<default>:?[-=+?])?)",
    re.ASCII,
)
"""Reference to a variable in the notation of a shell (`$NAME`, `${NAME}`, `${NAME%x}`) or Kubernetes (`$(NAME)`)."""
_SHELLS = re.compile(r"(?:.*/)?(?:ba|da|z|k|mk|c|tc|fi)?sh|(?:.*/)?(?:busybox|envsubst|eval)")
_SET_BY_OPERATORS: Mapping[str, tuple[str, ...]] = {
    "PyTorchJob": ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "PET_NNODES", "PET_NODE_RANK"),
    "TrainJob": ("PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE"),
}
"""Variables that operators add to the main container, which `$(NAME)` in its arguments may refer to."""


@dataclass(frozen=True)
class Reference:
    """A reference to a variable in a text."""

    text: str
    """Spelling in the text; for `operator` only the part up to the operator."""
    name: str
    spelling: str
    """`shell` (`$NAME`), `kubernetes` (`$(NAME)`), or `operator` (`${NAME%x}`), which only a shell expands."""
    has_default: bool
    """Whether the reference has a default for an unset variable, as `${NAME:-x}` has."""


def references(text: str) -> Iterator[Reference]:
    for match in _REFERENCE.finditer(text) if "$" in text else ():
        spelling = match.lastgroup if match.lastgroup in ("kubernetes", "operator") else "shell"
        spelling = "operator" if match["operator"] else spelling
        name = match["bare"] or match["braces"] or match["kubernetes"] or match["operator"]
        yield Reference(match[0], name, spelling or "shell", match["default"] is not None)


@Rule(
    id="program-refused",
    summary="The wrapper would refuse to start the program of a managed run.",
    details=(
        "Its command or arguments refer to a variable of Trainstack that does not exist, or a variable that the "
        "wrapper reads has an invalid value. The rule applies the wrapper's own checks."
    ),
    change=digits("args: [--output=$TRAINSTACK_OUTPTU]"),
    remedy="Correct the name. `$TRAINSTACK_SEED` requires `seed`.",
    silenceable=False,
)
def program_refused(context: RuleContext) -> Iterator[Violation]:
    for path, run in context.runs():
        if run.managed:
            yield from _refusals(context, path, run)
    for path, sweep in context.sweeps():
        known = ("TRAINSTACK_SEED",) if sweep.run.seed is not None else ()
        for parameter_set in sweep.sets if sweep.run.managed else ():
            texts = overrides_of(sweep, parameter_set).args
            if unknown := unknown_variables(texts, known):
                message = f"the arguments of set {parameter_set.number} refer to ${', $'.join(unknown)}"
                yield Violation(f"{path}.space.args", message)
                break


def _refusals(context: RuleContext, path: str, run: Workload) -> Iterator[Violation]:
    for container in _main_containers(context, run):
        variables = environment(container)
        # Values from Secrets and fields are unknown here. Trainstack sets its other variables itself.
        known = {name: value for name, value in variables.items() if value is not None}
        own = {name: value for name, value in known.items() if name in _READ or not name.startswith(_OURS)}
        arguments = program(container)[2:]
        try:
            WrapperSettings({"TRAINSTACK_POD": run.name, **own}, arguments[1:])
        except WrapperError as error:
            yield Violation(f"{path}.env", str(error), "correct or remove the variable")
            return
        try:
            parse_command(arguments, variables)
        except WrapperError as error:
            yield Violation(_place(path, run, unknown_variables(arguments, variables)), str(error))
            return


def _place(path: str, run: Workload, names: Sequence[str]) -> str:
    """Return the path of the command or arguments that refer to any of the names."""
    for own_path, texts, _ in _programs(path, run):
        if any(reference.name in names for text in texts for reference in references(text)):
            return own_path
    return f"{path}.args"


@Rule(
    id="variable-unexpanded",
    may_be=("warning",),
    summary="A program would get the name of a variable, such as `$RANK`, instead of its value.",
    details=(
        "Only a shell expands `$NAME` and `${NAME}`; Kubernetes replaces `$(NAME)` in commands, arguments and "
        "variables, there only if `NAME` is set before. The wrapper replaces the `$TRAINSTACK_…` of managed runs in "
        "commands and arguments; other programs do not have them. A warning for variables of `env`, which the program "
        "may expand."
    ),
    change=digits("args: [--rank=$RANK]"),
    remedy="Write `$(NAME)`, or have a shell start the program: `command: [sh, -c, …]`.",
)
def variable_unexpanded(context: RuleContext) -> Iterator[Violation]:
    sweeps = {f"{path}.run": sweep for path, sweep in context.sweeps()}
    for path, run in context.runs():
        violations: dict[tuple[str, str], Violation] = {}
        for violation in _unexpanded(context, path, run, sweeps.get(path)):
            violations.setdefault((violation.path, violation.message), violation)
        yield from violations.values()


def _unexpanded(context: RuleContext, path: str, run: Workload, sweep: Sweep | None) -> Iterator[Violation]:
    containers = list(_main_containers(context, run))
    names = [name for container in containers for name in environment(container)]
    variables = _Variables.of(run, names, sweep.form if sweep else None)
    programs = list(_programs(path, run))
    if sweep is not None:
        programs.append((f"{path.removesuffix('.run')}.space.args", sweep.space.args, programs[0][2]))
    for own_path, texts, started in programs:
        shell = any(_SHELLS.fullmatch(text) for text in started)
        for text in texts:
            for reference in references(text):
                yield from variables.in_program(own_path, text, reference, shell=shell)
    for container in containers:
        yield from _in_environment(path, variables, container)
    # No variable counts as set before those of a sweep's space.
    for name, text in (sweep.space.env if sweep is not None else {}).items():
        own_path = child(f"{path.removesuffix('.run')}.space.env", name)
        for reference in references(text):
            yield from variables.in_environment(own_path, name, reference, set())
    for name, reference in _in_other_containers(context, run):
        if reference.name.startswith(_OURS) and not reference.has_default:
            message = f"container {name} has no {reference.name}, which only the program of a managed run has"
            yield Violation(f"{path}.podPatch", message, "write the value out")


def _in_environment(path: str, variables: "_Variables", container: Mapping[str, Any]) -> Iterator[Violation]:
    before: set[str] = set()
    for variable in container.get("env") or ():
        name = variable["name"]
        if not name.startswith(_OURS):
            own_path = _path_of_variable(path, variables.run, name)
            for reference in references(variable.get("value") or ""):
                yield from variables.in_environment(own_path, name, reference, before)
        before.add(name)


@dataclass(frozen=True)
class _Variables:
    """The variables of a run's program."""

    run: Workload
    own: frozenset[str]
    """Names that the settings set."""
    provided: frozenset[str]
    """Names that the kind, the sweep or the operator sets, as far as `$(NAME)` can refer to them."""
    by_wrapper: frozenset[str]
    """Names that only the wrapper sets, in the running pod."""

    @classmethod
    def of(cls, run: Workload, names: Sequence[str], form: str | None) -> "_Variables":
        """Return the variables of a run.

        `names`: the variables in its manifest. `form`: the form of the sweep if the run is a trial.
        """
        overrides = (*run.roles.values(), *run.replicated_jobs)
        own = frozenset({*run.env, *run.secret_env}.union(*(each.env or () for each in overrides)))
        provided = {*names, *_SET_BY_OPERATORS.get(run.kind, ())} - own
        provided |= {"JOB_COMPLETION_INDEX"} if indexed(run) or run.kind == "JobSet" else set()
        provided |= {NUMBER} if form == "jobs" else set()
        return cls(run, own, frozenset(provided), frozenset({NUMBER} if form == "indexed" else ()))

    def in_program(self, path: str, text: str, reference: Reference, *, shell: bool) -> Iterator[Violation]:
        """Yield a violation if a reference in a command or in arguments is not expanded.

        `has_shell`: whether the program starts a shell, which may expand it.
        """
        name, shown = reference.name, f"{concealed(text)[:60]!r} refers to {reference.text}"
        if name.startswith(_OURS) and self.run.managed:
            if reference.spelling == "operator" and not shell:
                yield Violation(path, f"{shown}…}}, which no shell expands", f"write ${name}")
        elif name.startswith(_OURS) and name not in self.own | self.provided:
            if not reference.has_default:
                yield Violation(path, f"{shown}, which an unmanaged run does not have", _MANAGED)
        elif reference.spelling == "kubernetes":
            if name in self.by_wrapper:
                yield Violation(path, f"{shown}, which is not set before the wrapper runs", _IN_A_SHELL)
        elif not shell and name in self.provided | self.by_wrapper:
            remedy = _IN_A_SHELL if name in self.by_wrapper else f"write $({name}), or have a shell start the program"
            yield Violation(path, f"{shown}, which no shell expands", remedy)
        elif not shell and name in self.own:
            remedy = f"write $({name}), unless the program expands it"
            yield Violation(path, f"{shown}, which no shell expands", remedy, "warning")

    def in_environment(self, path: str, variable: str, reference: Reference, before: set[str]) -> Iterator[Violation]:
        """Yield a violation if a reference in a variable's value is not expanded; only Kubernetes expands there.

        `earlier_names`: the variables before it in the container, the only ones to which it can refer.
        """
        name, shown = reference.name, f"variable {variable} refers to {reference.text}"
        if reference.spelling == "kubernetes" and name in before:
            return
        if (name.startswith(_OURS) or name in self.provided | self.by_wrapper) and name not in self.own:
            yield Violation(path, f"{shown}, which is not set before it", "move it to the command or the arguments")
        elif name in self.own:
            written = reference.spelling == "kubernetes"
            remedy = f"list {name} before {variable}" if written else f"write $({name}), and list {name} first"
            if name == variable:
                remedy = "write the whole value: that of the image is not known there"
            yield Violation(path, f"{shown}, which is not expanded there", remedy, "warning")


_MANAGED = "remove it, write the value out, or leave out `managed: false`"
_IN_A_SHELL = "have the program read it from its environment, or have a shell expand it"


def _main_containers(context: RuleContext, run: Workload) -> Iterator[Mapping[str, Any]]:
    """Yield the main container of each role; none if the manifest cannot be built, which other rules report."""
    for pods in _pods(context, run):
        yield pods["containers"][0]


def _in_other_containers(context: RuleContext, run: Workload) -> Iterator[tuple[str, Reference]]:
    """Yield the unset references in containers that a patch adds, with the name of the container."""
    added = (run.pod_patch or {}).get("spec", {})
    names = {item.get("name") for field in ("containers", "initContainers") for item in added.get(field) or ()}
    for pods in _pods(context, run) if names else ():
        for container in (*pods["containers"][1:], *(pods.get("initContainers") or ())):
            variables = environment(container)
            texts = [*program(container), *(value for value in variables.values() if value is not None)]
            for text in texts if container["name"] in names else ():
                yield from ((container["name"], each) for each in references(text) if each.name not in variables)


def _pods(context: RuleContext, run: Workload) -> Iterator[Mapping[str, Any]]:
    try:
        body, companions = context.declared.queued(run)
    except WorkloadError:
        return
    for pods in launched_pods(body, companions):
        yield pods.spec


def _programs(path: str, run: Workload) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
    """Yield the path of each command and list of arguments, its texts, and the whole program of which it is a part."""
    started = _started(run.command, run.args)
    yield f"{path}.command", run.command, started
    yield f"{path}.args", run.args, started
    for own_path, own in _overrides(path, run):
        command = getattr(own, "command", None)
        started = _started(run.command if command is None else command, run.args if own.args is None else own.args)
        yield f"{own_path}.command", command or (), started
        yield f"{own_path}.args", own.args or (), started


def _overrides(path: str, run: Workload) -> Iterator[tuple[str, PodOverrides]]:
    yield from ((f"{path}.roles.{name}", role) for name, role in run.roles.items())
    jobs = run.replicated_jobs
    yield from zip(elements(f"{path}.replicatedJobs", [job.name for job in jobs]), jobs, strict=True)


def _path_of_variable(path: str, run: Workload, name: str) -> str:
    if name in run.env:
        return child(f"{path}.env", name)
    return next(
        (child(f"{own_path}.env", name) for own_path, own in _overrides(path, run) if name in (own.env or ())),
        f"{path}.podPatch",
    )


def _started(command: Sequence[str], args: Sequence[str]) -> Sequence[str]:
    return (*command, *args) if command else ("sh", *args)  # The image's entrypoint may be a shell.

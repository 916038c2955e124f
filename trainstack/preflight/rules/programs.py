"""Rules about the programs of runs: what the wrapper refuses, and variables that nothing would expand."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainstack.preflight.examples import hello
from trainstack.preflight.rule import Rule, Violation
from trainstack.preflight.rule_context import RuleContext, built_pod_sets
from trainstack.runs.manifests.kind import RunPodSet
from trainstack.runs.manifests.pod_template import WRAPPER_SETTINGS
from trainstack.runs.manifests.sweep_pod import NUMBER_VARIABLE
from trainstack.runs.manifests.trials import parameter_overrides
from trainstack.runs.manifests.user_manifest import main_container
from trainstack.runs.manifests.variable_expansion import container_program, container_variables
from trainstack.runs.names import is_indexed
from trainstack.runs.wrapper.run import WrapperError, WrapperSettings, parse_command, unknown_variables
from trainstack.settings.sections.sweeps import Sweep
from trainstack.settings.sections.workloads import PodOverrides, Workload
from trainstack.settings.values.credential_text import conceal_credentials
from trainstack.settings.values.paths import child_path, named_element_paths

_TRAINSTACK_PREFIX = "TRAINSTACK_"
_WRAPPER_VARIABLES = (*WRAPPER_SETTINGS, "TRAINSTACK_RUN_ID", "TRAINSTACK_RECORD")
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


def find_references(text: str) -> Iterator[Reference]:
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
    change=hello("args: [--output=$TRAINSTACK_OUTPTU]"),
    remedy="Correct the name. `$TRAINSTACK_SEED` requires `seed`.",
    silenceable=False,
)
def program_refused(context: RuleContext) -> Iterator[Violation]:
    for path, run in context.runs():
        if run.managed:
            yield from _wrapper_violations(context, path, run)
    for path, sweep in context.sweeps():
        set_variables = ("TRAINSTACK_SEED",) if sweep.run.seed is not None else ()
        for parameter_set in sweep.sets if sweep.run.managed else ():
            texts = parameter_overrides(sweep, parameter_set).args
            if unknown_names := unknown_variables(texts, set_variables):
                message = f"the arguments of set {parameter_set.number} refer to ${', $'.join(unknown_names)}"
                yield Violation(f"{path}.space.args", message)
                break


def _wrapper_violations(context: RuleContext, path: str, run: Workload) -> Iterator[Violation]:
    for _, container in _main_containers(context, path, run):
        variables = container_variables(container)
        # Values from Secrets and fields are unknown here. Trainstack sets its other variables itself.
        known_values = {name: value for name, value in variables.items() if value is not None}
        checked_values = {
            name: value
            for name, value in known_values.items()
            if name in _WRAPPER_VARIABLES or not name.startswith(_TRAINSTACK_PREFIX)
        }
        arguments = container_program(container)[2:]
        try:
            WrapperSettings({"TRAINSTACK_POD": run.name, **checked_values}, arguments[1:])
        except WrapperError as error:
            yield Violation(f"{path}.env", str(error), "correct or remove the variable")
            return
        try:
            parse_command(arguments, variables)
        except WrapperError as error:
            yield Violation(_referring_path(path, run, unknown_variables(arguments, variables)), str(error))
            return


def _referring_path(path: str, run: Workload, names: Sequence[str]) -> str:
    """Return the path of the command or arguments that refer to any of the names."""
    for texts_path, texts, _ in _program_texts(path, run):
        if any(reference.name in names for text in texts for reference in find_references(text)):
            return texts_path
    return f"{path}.args"


@Rule(
    id="variable-unexpanded",
    may_be=("warning",),
    summary="A program would get the name of a variable, such as `$RANK`, instead of its value.",
    details=(
        "Only a shell expands `$NAME` and `${NAME}`; Kubernetes replaces `$(NAME)` in commands, arguments and "
        "variables, there only if `NAME` is set before. The wrapper replaces the `$TRAINSTACK_…` of managed runs in "
        "commands and arguments; other programs do not have them. A warning for variables of `env`, which the program "
        "may expand, and for those of manifests."
    ),
    change=hello('env: {LR: "0.1"}, command: [python3, train.py], args: [--lr=$LR]'),
    remedy="Write `$(NAME)`, or have a shell start the program: `command: [sh, -c, …]`.",
)
def variable_unexpanded(context: RuleContext) -> Iterator[Violation]:
    sweeps = {f"{path}.run": sweep for path, sweep in context.sweeps()}
    for path, run in context.runs():
        violations: dict[tuple[str, str], Violation] = {}
        for violation in _unexpanded_violations(context, path, run, sweeps.get(path)):
            violations.setdefault((violation.path, violation.message), violation)
        yield from violations.values()


def _unexpanded_violations(context: RuleContext, path: str, run: Workload, sweep: Sweep | None) -> Iterator[Violation]:
    containers = list(_main_containers(context, path, run))
    names = [name for _, container in containers for name in container_variables(container)]
    variables = _Variables.from_run(run, names, sweep.form if sweep else None)
    programs = list(_program_texts(path, run))
    if sweep is not None:
        programs.append((f"{path.removesuffix('.run')}.space.args", sweep.space.args, programs[0][2]))
    for texts_path, texts, program_words in programs:
        has_shell = any(_SHELLS.fullmatch(text) for text in program_words)
        for text in texts:
            for reference in find_references(text):
                yield from variables.program_violations(texts_path, text, reference, has_shell=has_shell)
    for pods, container in containers:
        yield from _environment_violations(pods, variables, container)
    # No variable counts as set before those of a sweep's space.
    for name, text in (sweep.space.env if sweep is not None else {}).items():
        texts_path = child_path(f"{path.removesuffix('.run')}.space.env", name)
        for reference in find_references(text):
            yield from variables.environment_violations(texts_path, name, reference, set())
    for patch_path, name, reference in _added_container_references(context, path, run):
        if reference.name.startswith(_TRAINSTACK_PREFIX) and not reference.has_default:
            message = f"container {name} has no {reference.name}, which only the program of a managed run has"
            yield Violation(patch_path, message, "write the value out")


def _environment_violations(
    pods: RunPodSet, variables: "_Variables", container: Mapping[str, Any]
) -> Iterator[Violation]:
    earlier_names: set[str] = set()
    for variable in container.get("env") or ():
        name = variable["name"]
        if not name.startswith(_TRAINSTACK_PREFIX):
            for reference in find_references(variable.get("value") or ""):
                variable_path = _variable_path(pods, name)
                for violation in variables.environment_violations(variable_path, name, reference, earlier_names):
                    # A manifest may be in use elsewhere, so its variables are no errors.
                    yield violation if pods.template_path is None else replace(violation, severity="warning")
        earlier_names.add(name)


def _variable_path(pods: RunPodSet, name: str) -> str:
    """Return the path of a variable of the main container: in a manifest, in the settings, or in a patch."""
    if pods.template_path is not None:
        return f"{pods.resources_path.removesuffix('.resources')}.env[{name}]"
    is_setting = name in pods.settings.env
    return child_path(pods.setting_path("env"), name) if is_setting else pods.setting_path("pod_patch")


@dataclass(frozen=True)
class _Variables:
    """The variables of a run's program."""

    run: Workload
    from_settings: frozenset[str]
    """Names that the settings set."""
    provided: frozenset[str]
    """Names that the kind, the sweep or the operator sets, as far as `$(NAME)` can refer to them."""
    from_wrapper: frozenset[str]
    """Names that only the wrapper sets, in the running pod."""

    @classmethod
    def from_run(cls, run: Workload, names: Sequence[str], form: str | None) -> "_Variables":
        """Return the variables of a run.

        `names`: the variables in its manifest. `form`: the form of the sweep if the run is a trial.
        """
        overrides = (*run.roles.values(), *run.replicated_jobs)
        role_names = [override.env or () for override in overrides]
        settings_names = frozenset({*run.env, *run.referenced_variables}.union(*role_names))
        if run.manifest is not None:
            settings_names |= {name for name in names if not name.startswith(_TRAINSTACK_PREFIX)}
        provided = {*names, *_SET_BY_OPERATORS.get(run.kind, ())} - settings_names
        provided |= {"JOB_COMPLETION_INDEX"} if is_indexed(run) or run.kind == "JobSet" else set()
        provided |= {NUMBER_VARIABLE} if form == "jobs" else set()
        return cls(run, settings_names, frozenset(provided), frozenset({NUMBER_VARIABLE} if form == "indexed" else ()))

    def program_violations(self, path: str, text: str, reference: Reference, *, has_shell: bool) -> Iterator[Violation]:
        """Yield a violation if a reference in a command or in arguments is not expanded.

        `has_shell`: whether the program starts a shell, which may expand it.
        """
        name, subject = reference.name, f"{conceal_credentials(text)[:60]!r} refers to {reference.text}"
        if name.startswith(_TRAINSTACK_PREFIX) and self.run.managed:
            if reference.spelling == "operator" and not has_shell:
                yield Violation(path, f"{subject}…}}, which no shell expands", f"write ${name}")
        elif name.startswith(_TRAINSTACK_PREFIX) and name not in self.from_settings | self.provided:
            if not reference.has_default:
                yield Violation(path, f"{subject}, which an unmanaged run does not have", _UNMANAGED_REMEDY)
        elif reference.spelling == "kubernetes":
            if name in self.from_wrapper:
                yield Violation(path, f"{subject}, which is not set before the wrapper runs", _SHELL_REMEDY)
        elif not has_shell and name in self.provided | self.from_wrapper:
            remedy = (
                _SHELL_REMEDY if name in self.from_wrapper else f"write $({name}), or have a shell start the program"
            )
            yield Violation(path, f"{subject}, which no shell expands", remedy)
        elif not has_shell and name in self.from_settings:
            remedy = f"write $({name}), unless the program expands it"
            yield Violation(path, f"{subject}, which no shell expands", remedy, "warning")

    def environment_violations(
        self, path: str, variable: str, reference: Reference, earlier_names: set[str]
    ) -> Iterator[Violation]:
        """Yield a violation if a reference in a variable's value is not expanded; only Kubernetes expands there.

        `earlier_names`: the variables before it in the container, the only ones to which it can refer.
        """
        name, subject = reference.name, f"variable {variable} refers to {reference.text}"
        if reference.spelling == "kubernetes" and name in earlier_names:
            return
        if (
            name.startswith(_TRAINSTACK_PREFIX) or name in self.provided | self.from_wrapper
        ) and name not in self.from_settings:
            yield Violation(path, f"{subject}, which is not set before it", "move it to the command or the arguments")
        elif name in self.from_settings:
            is_expandable = reference.spelling == "kubernetes"
            remedy = f"list {name} before {variable}" if is_expandable else f"write $({name}), and list {name} first"
            if name == variable:
                remedy = "write the whole value: that of the image is not known there"
            yield Violation(path, f"{subject}, which is not expanded there", remedy, "warning")


_UNMANAGED_REMEDY = "remove it, write the value out, or leave out `managed: false`"
_SHELL_REMEDY = "have the program read it from its environment, or have a shell expand it"


def _main_containers(context: RuleContext, path: str, run: Workload) -> Iterator[tuple[RunPodSet, Mapping[str, Any]]]:
    """Yield the main container of each pod set; none if the manifest cannot be built, which other rules report."""
    for pods, launched in built_pod_sets(context, path, run):
        first = launched.spec["containers"][0]
        yield pods, first if run.manifest is None else main_container(run, launched.template)


def _added_container_references(context: RuleContext, path: str, run: Workload) -> Iterator[tuple[str, str, Reference]]:
    """Yield the unset references in containers that a patch adds, with the path of the patch and the container."""
    for pods, launched in built_pod_sets(context, path, run):
        patched_spec, pod_spec = (pods.settings.pod_patch or {}).get("spec", {}), launched.spec
        names = {item.get("name") for key in ("containers", "initContainers") for item in patched_spec.get(key) or ()}
        for container in (*pod_spec["containers"][1:], *(pod_spec.get("initContainers") or ())):
            variables = container_variables(container)
            texts = [*container_program(container), *(value for value in variables.values() if value is not None)]
            for text in texts if container["name"] in names else ():
                yield from (
                    (pods.setting_path("pod_patch"), container["name"], reference)
                    for reference in find_references(text)
                    if reference.name not in variables
                )


def _program_texts(path: str, run: Workload) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
    """Yield the path of each command and list of arguments, its texts, and the whole program of which it is a part."""
    program_words = _program_words(run.command, run.args)
    yield f"{path}.command", run.command, program_words
    yield f"{path}.args", run.args, program_words
    for override_path, override in pod_overrides(path, run):
        command = getattr(override, "command", None)
        program_words = _program_words(
            run.command if command is None else command, run.args if override.args is None else override.args
        )
        yield f"{override_path}.command", command or (), program_words
        yield f"{override_path}.args", override.args or (), program_words


def pod_overrides(path: str, run: Workload) -> Iterator[tuple[str, PodOverrides]]:
    """Yield the overrides of a run's roles and replicated Jobs, with their paths."""
    yield from ((f"{path}.roles.{name}", role) for name, role in run.roles.items())
    jobs = run.replicated_jobs
    yield from zip(named_element_paths(f"{path}.replicatedJobs", [job.name for job in jobs]), jobs, strict=True)


def _program_words(command: Sequence[str], args: Sequence[str]) -> Sequence[str]:
    return (*command, *args) if command else ("sh", *args)  # The image's entrypoint may be a shell.

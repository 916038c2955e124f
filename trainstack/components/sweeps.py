"""A sweep: the launches of its trials, and the parameter files that they mount."""

from collections.abc import Mapping
from typing import Any

import pulumi

from trainstack.components.launches import LaunchOptions, declare_launches
from trainstack.components.objects import declare_objects
from trainstack.components.sections import launch_groups, refuse_checkout, stack_label, validate_section
from trainstack.preflight.rules.sweeps import gpu_hours
from trainstack.runs.recorded_launches import SWEEP_TYPE
from trainstack.settings.model import Settings
from trainstack.settings.search_space.hyperparams import Expansion, format_sets, space_digest
from trainstack.settings.search_space.space_rules import faults_of_space
from trainstack.settings.sections.sweeps import Sweep as SweepSettings
from trainstack.settings.sections.sweeps import Sweeps
from trainstack.stack_objects.launch_groups import LaunchGroup
from trainstack.sweeps.search.expand import SpaceError, expand


class Sweep(pulumi.ComponentResource):
    """The trials of one sweep: a launch for each trial, or with form `indexed` one Job for all of them.

    Each trial is named after everything that would change its result, so an update does not launch an unchanged trial
    again. With form `indexed`, other trials are another Job. From plain arguments, the parameter files are retained.
    """

    launches: pulumi.Output[list[str]]
    """The launched objects, as `<namespace>/<name>`, once they exist."""

    def __init__(
        self,
        name: str,
        args: SweepSettings | Mapping[str, Any] | LaunchGroup,
        opts: pulumi.ResourceOptions | None = None,
        *,
        stack: str | None = None,
        context: str | None = None,
        launch_options: LaunchOptions | None = None,
    ) -> None:
        """Launch the trials of a sweep, as in section `trainstack:sweeps` of an environment's file.

        Its `run` has all keys of `workloads/<name>/workload.yaml`, with `image.name`, and its `space` those of
        `sweeps/<name>/space.yaml`. `stack` labels the objects; by default, the Pulumi stack. `context` is the
        kubeconfig's context that `opts.provider` uses, by default the current one. `launch_options`: how a stack with
        guards creates the launches. Raises RunError if the sweep cannot be built.
        """
        super().__init__(SWEEP_TYPE, name, {}, opts)
        mounted_files: list[pulumi.Resource] = []
        file_options = None
        if not isinstance(args, LaunchGroup):
            settings = Settings(stack=stack_label(stack), sweeps=Sweeps(sweeps=(_expand_sweep(args),)))
            runs, args = launch_groups(settings)
            mounted_files += declare_objects(runs.files, self)  # the wrapper of managed trials
            # Other sets are another file, but a launch mounts the file that it was created with.
            file_options = pulumi.ResourceOptions(retain_on_delete=True)
        mounted_files += declare_objects(args.files, self, opts=file_options)
        launch_options = launch_options or LaunchOptions(context=context, ignores_changes=True)
        self.launches = declare_launches(args, launch_options, self, mounted_files)
        self.register_outputs({"launches": self.launches})


def _expand_sweep(args: SweepSettings | Mapping[str, Any]) -> SweepSettings:
    """The sweep with the sets of its space. Raises RunError."""
    if isinstance(args, Mapping) and isinstance(args.get("run"), Mapping):
        # In an environment's file, the run has the sweep's name.
        args = {**args, "run": {"name": args.get("name"), **args["run"]}}
    sweep = validate_section(SweepSettings, args)
    refuse_checkout(sweep.run)
    if sweep.run.name != sweep.name:
        raise pulumi.RunError(f"sweep {sweep.name}: run.name is {sweep.run.name}; leave it out")
    violations = [
        f"space.{'.'.join(map(str, fault.steps))}: {fault.message}: {fault.remedy}"
        for fault in faults_of_space(sweep.space)
    ]
    if violations:
        raise pulumi.RunError(f"sweep {sweep.name}: {'; '.join(violations)}")
    if sweep.expansion is None:
        try:
            sets = expand(sweep.space)
        except SpaceError as error:
            raise pulumi.RunError(f"sweep {sweep.name}: space.{error.path}: {error}") from error
        expansion = Expansion(space=space_digest(sweep.space), sets=sets)
        text = format_sets(sweep.name, sweep.space, sets)
        sweep = sweep.model_copy(update={"expansion": expansion, "sets_text": text})
    if sweep.max_gpu_hours is not None and gpu_hours(sweep) > sweep.max_gpu_hours:
        raise pulumi.RunError(
            f"sweep {sweep.name}: the trials may take {float(gpu_hours(sweep)):.1f} GPU hours, more than maxGpuHours "
            f"({sweep.max_gpu_hours:g}); lower run.activeDeadlineSeconds, remove sets, or raise maxGpuHours"
        )
    return sweep

"""Training runs: their launches, and the wrapper of managed runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from trainstack.components.launches import LaunchOptions, declare_launches
from trainstack.components.objects import Object, declare_objects
from trainstack.components.sections import launch_groups, refuse_checkout, stack_label, validate_section
from trainstack.runs.recorded_launches import RUNS_TYPE
from trainstack.settings.model import Settings
from trainstack.settings.sections.workloads import Workload, Workloads
from trainstack.stack_objects.launch_groups import LaunchGroup


class Runs(pulumi.ComponentResource):
    launches: pulumi.Output[list[str]]
    """The launched objects, as `<namespace>/<name>`."""
    wrappers: Sequence[Object]
    """The ConfigMaps with the wrapper, which managed launches mount."""

    def __init__(
        self, name: str, group: LaunchGroup, launch_options: LaunchOptions, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(RUNS_TYPE, name, {}, opts)
        self.wrappers = declare_objects(group.files, self)
        self.launches = declare_launches(group, launch_options, self, self.wrappers)
        self.register_outputs({"launches": self.launches})


class TrainingRun(pulumi.ComponentResource):
    """One training run of any Pulumi program, as an object of any kind of workload, with its record.

    The object is named after everything that would change the run's result. An unchanged run is therefore never
    launched again, and a changed one is a new object.
    """

    launch: pulumi.Output[str]
    """The launched object, as `<namespace>/<name>`, once it exists."""
    run_id: str
    """The id of the run, `<name>-<10 hexadecimal digits>`."""

    def __init__(
        self,
        name: str,
        args: Workload | Mapping[str, Any],
        opts: pulumi.ResourceOptions | None = None,
        *,
        stack: str | None = None,
        context: str | None = None,
    ) -> None:
        """Launch a run, with the keys of `workloads/<name>/workload.yaml` and the image in `image.name`.

        `stack` labels the objects; by default, the Pulumi stack. `context` is the kubeconfig's context that
        `opts.provider` uses, by default the current one. Raises RunError if the run cannot be built.
        """
        super().__init__("trainstack:training:TrainingRun", name, {}, opts)
        run = validate_section(Workload, args)
        refuse_checkout(run)
        (group,) = launch_groups(Settings(stack=stack_label(stack), workloads=Workloads(runs=(run,))))
        self.run_id = group.launches[0].run_id
        launch_options = LaunchOptions(context=context, ignores_changes=True)
        launches = declare_launches(group, launch_options, self, declare_objects(group.files, self))
        self.launch = launches.apply(lambda names: names[0])
        self.register_outputs({"launch": self.launch, "run_id": self.run_id})

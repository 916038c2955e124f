"""A sweep: the launches of its trials, and the parameter files that they mount."""

import pulumi

from trainstack.components.launches import LaunchOptions, declare_launches
from trainstack.components.objects import declare
from trainstack.declared.launches import LaunchGroup
from trainstack.runs.recorded import SWEEP


class Sweep(pulumi.ComponentResource):
    """One sweep: form `indexed` has one Job, one file and one ledger for any number of new trials."""

    launches: pulumi.Output[list[str]]
    """The launched objects, as `<namespace>/<name>`."""

    def __init__(
        self, name: str, group: LaunchGroup, launching: LaunchOptions, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Declare the files, then launches and ledgers."""
        super().__init__(SWEEP, name, {}, opts)
        parameter_files = declare(group.files, self)
        self.launches = declare_launches(group, launching, self, parameter_files)
        self.register_outputs({"launches": self.launches})

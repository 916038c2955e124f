"""Errors of the manifest builders."""

from trainstack.errors import TrainstackError


class WorkloadError(TrainstackError):
    """A declared workload cannot be built. The message gives the workload, the problem and the remedy."""


class ReservedVariableError(WorkloadError):
    """A workload sets an environment variable that is reserved."""

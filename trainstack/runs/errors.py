"""Errors of the manifest builders."""

from trainstack.errors import TrainstackError


class WorkloadError(TrainstackError):
    """An error in a workload that cannot be built. The message gives the workload, the problem and the remedy."""


class ReservedVariableError(WorkloadError):
    """An error in a workload that sets a reserved environment variable."""

"""Errors of the manifest builders."""


class WorkloadError(ValueError):
    """A declared workload cannot be built. The message gives the workload, the problem and the remedy."""


class ReservedVariableError(WorkloadError):
    """A workload sets an environment variable that is reserved."""

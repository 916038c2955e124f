"""What the builders of workloads refuse."""


class WorkloadError(ValueError):
    """A workload that cannot be built as it is declared; says which, what, the limit and the remedy."""


class ReservedVariableError(WorkloadError):
    """A workload sets an environment variable that its pods are given."""

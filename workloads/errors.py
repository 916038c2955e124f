"""What the builders of workloads refuse."""


class WorkloadError(ValueError):
    """A workload that cannot be built as it is declared; says which, what, the limit and the remedy."""

"""Examples of rules: changes of the environment `dev`, as YAML, in which only some fields differ from rule to rule."""


def digits(fields: str) -> str:
    """Set these fields of the run `digits`."""
    return f"\ntrainstack:workloads:\n  runs:\n    - {{name: digits, {fields}}}"


def training(fields: str) -> str:
    """Set these fields of the volume `training`."""
    return f"\ntrainstack:storage:\n  volumes:\n    - {{name: training, {fields}}}"

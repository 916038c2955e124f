"""Examples for rules: YAML changes of the environment of a new project, which a test applies."""


def yaml_at(path: str, *lines: str) -> str:
    """Return a change with these lines below a path such as `queues.cohorts`."""
    name, *keys = path.split(".")
    nested = [*(f"{key}:" for key in keys), *lines]
    indented = [f"{'  ' * (1 + min(depth, len(keys)))}{line}" for depth, line in enumerate(nested)]
    return "\n".join(["", f"trainstack:{name}:", *indented])


def hello(fields: str) -> str:
    """Return a change that sets these fields of the run `hello`."""
    return yaml_at("workloads.runs", f"- {{name: hello, {fields}}}")


def training(fields: str) -> str:
    """Return a change that sets these fields of the volume `training`."""
    return yaml_at("storage.volumes", f"- {{name: training, {fields}}}")

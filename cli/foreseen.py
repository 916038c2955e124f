"""Failures that are foreseen, wherever in a command they happen, as the message that ends it.

Whatever is not listed is a bug of ours, and keeps its traceback.
"""

import sys

_EXPECTED = (
    ("settings.errors", "SettingsError"),
    ("settings.team_request", "TeamError"),
    ("manifests.release", "ReleaseError"),
    ("manifests.operators", "OperatorError"),
    ("workloads.errors", "WorkloadError"),
    ("workloads.render", "InputsError"),
    ("checks.cluster.client", "ClusterError"),
    ("trials.expand", "SpaceError"),
    ("reports.errors", "ReportError"),
    ("devcluster.errors", "ClusterError"),
    ("toolchain.errors", "ToolchainError"),
    ("cli.registry_access", "RegistryError"),
    ("cli.image_tools", "ImageToolError"),
)
"""Errors whose text is written for people, by module and class."""


def foreseen(error: Exception) -> str | None:
    """The message of a foreseen failure; None for any other."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{_path(error.filename)}: {error.strerror or error}"
    # The module of an error that was raised is loaded; some of the others take long to load.
    classes = tuple(getattr(sys.modules[module], name) for module, name in _EXPECTED if module in sys.modules)
    return str(error) if isinstance(error, classes) else None


def _path(name: object) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)

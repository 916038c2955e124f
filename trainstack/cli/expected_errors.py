"""Messages of expected errors. Any other error is a bug and keeps its traceback."""

import sys

_EXPECTED = (
    ("trainstack.settings.errors", "SettingsError"),
    ("trainstack.onboarding.team_request", "TeamError"),
    ("trainstack.platform.operators.release", "ReleaseError"),
    ("trainstack.platform.operators.install", "OperatorError"),
    ("trainstack.runs.errors", "WorkloadError"),
    ("trainstack.declared.inputs", "InputsError"),
    ("trainstack.live.client", "ClusterError"),
    ("trainstack.sweeps.search.expand", "SpaceError"),
    ("trainstack.reports.errors", "ReportError"),
    ("trainstack.review.errors", "ReviewError"),
    ("trainstack.dev.cluster.errors", "ClusterError"),
    ("trainstack.dev.toolchain.errors", "ToolchainError"),
    ("trainstack.live.registry_credentials", "RegistryError"),
    ("trainstack.transfer.errors", "TransferError"),
    ("trainstack.onboarding.project_files", "ProjectFilesError"),
    ("trainstack.dev.image_tools", "ImageToolError"),
)
"""Errors whose text is written for users, by module and class."""


def expected_message(error: Exception) -> str | None:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{_path(error.filename)}: {error.strerror or error}"
    # The module of a raised error is loaded already; importing the others would be slow.
    classes = tuple(getattr(sys.modules[module], name) for module, name in _EXPECTED if module in sys.modules)
    return str(error) if isinstance(error, classes) else None


def _path(name: object) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)

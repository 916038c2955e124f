"""The operators' release manifests that an environment names by URL, for commands."""

from collections.abc import Mapping

from trainstack.cli.output.console import report
from trainstack.platform.operators.release import ChecksumMismatchError, RefusedDownloadError, ReleaseError
from trainstack.preflight.finding import Finding
from trainstack.preflight.rule import Severity, Violation
from trainstack.preflight.rules.operators import manifest_mismatch, manifest_missing
from trainstack.settings.loading.load import LoadedEnvironment
from trainstack.settings.model import Settings


def settings_with_downloads(settings: Settings) -> Settings:
    """Download missing releases, and return the settings with their paths. Raises DownloadError with every error."""
    if not _names_url(settings):
        return settings
    from trainstack.live import releases  # noqa: PLC0415 (the HTTP client is slow to load)

    return releases.with_downloads(settings, report)


def try_downloads(settings: Settings) -> tuple[Settings, Mapping[str, ReleaseError]]:
    """Return the settings with the paths of downloaded releases, and the errors by operator."""
    if not _names_url(settings):
        return settings, {}
    from trainstack.live.releases import fetch  # noqa: PLC0415 (as above)

    operators, errors = fetch(settings.operators, report)
    return settings.model_copy(update={"operators": operators}), errors


def _names_url(settings: Settings) -> bool:
    return any(install.manifest.url is not None for install in settings.operators.installs.values())


def as_finding(error: ReleaseError, loaded: LoadedEnvironment) -> Finding:
    """Return the finding for a release that could not be downloaded: unknown if the network may be the cause."""
    rule = manifest_mismatch.rule if isinstance(error, ChecksumMismatchError) else manifest_missing.rule
    severity: Severity = "error" if isinstance(error, RefusedDownloadError) else "unknown"
    violation = Violation(error.path, error.message, error.remedy, severity)
    return Finding.from_violation(rule, violation, loaded.place_of(error.path))

"""The operators' release manifests that an environment names by URL, for commands."""

from collections.abc import Mapping

from trainstack.cli.console import report
from trainstack.platform.operators.release import ReleaseError
from trainstack.settings.model import Settings


def with_downloads(settings: Settings) -> Settings:
    """Download missing releases, and return the settings with their paths. Raises DownloadError with every error."""
    downloaded, errors = downloads(settings)
    if errors:
        raise ReleaseError("\n".join(map(str, errors.values())))
    return downloaded


def downloads(settings: Settings) -> tuple[Settings, Mapping[str, ReleaseError]]:
    """Return the settings with the paths of downloaded releases, and the errors by operator."""
    if all(install.manifest.url is None for install in settings.operators.installs.values()):
        return settings, {}
    from trainstack.live.releases import fetch  # noqa: PLC0415 (the HTTP client is slow to load)

    operators, errors = fetch(settings.operators, report)
    return settings.model_copy(update={"operators": operators}), errors

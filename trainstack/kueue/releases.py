"""The releases of Kueue whose admission the simulator models."""

from collections.abc import Iterable

from trainstack.kueue.differences import RELEASES, minor_of
from trainstack.kueue.verdict import Reason, Verdict
from trainstack.settings.model import Settings

MODELED_MINORS = tuple(minor for minor, release in RELEASES.items() if release.serves_v1beta2)
"""Minor releases whose objects environments can declare and clusters answer with: v0.14 serves v1beta1 alone."""


def is_modeled(release: str) -> bool:
    """Whether the simulator models a release, such as `v0.15.2`; an unknown release (empty) is modeled where
    the modeled ones agree."""
    return not release or minor_of(release) in MODELED_MINORS


def release_from_settings(settings: Settings) -> str:
    """Return the release of Kueue that an environment pins; empty if it installs none."""
    kueue = settings.operators.kueue
    return kueue.manifest.version if kueue else ""


def verdicts_for_release(verdicts: Iterable[Verdict], release: str) -> list[Verdict]:
    """Return the verdicts, or `unknown` for each of them if the simulator does not model the release."""
    if is_modeled(release):
        return list(verdicts)
    message = f"the verdict models Kueue {', '.join(MODELED_MINORS)}, but Kueue {release} admits the run"
    return [
        Verdict(
            name=verdict.name,
            namespace=verdict.namespace,
            queue=verdict.queue,
            path=verdict.path,
            cluster_queue=verdict.cluster_queue,
            outcome="unknown",
            reasons=(Reason("unread", message, verdict.path),),
        )
        for verdict in verdicts
    ]

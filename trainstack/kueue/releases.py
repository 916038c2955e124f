"""The releases of Kueue whose admission the simulator models."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from trainstack.kueue.differences import RELEASES, is_newer, minor_of, release_of
from trainstack.kueue.verdict import Reason, Verdict
from trainstack.settings.model import Settings

MODELED_MINORS = tuple(minor for minor, release in RELEASES.items() if release.serves_v1beta2)
"""Minor releases whose objects environments can declare and clusters answer with: v0.14 serves v1beta1 alone."""


def has_rules(release: str) -> bool:
    """Return whether verdicts on a release, such as `v0.15.2`, are calculated.

    Those on an unknown release (empty) are where the modeled ones agree, those on a newer one by the newest rules.
    """
    return not release or minor_of(release) in MODELED_MINORS or is_newer(release)


def release_from_settings(settings: Settings) -> str:
    """Return the release of Kueue that an environment pins; empty if it installs none."""
    kueue = settings.operators.kueue
    return kueue.manifest.version if kueue else ""


def verdicts_for_release(
    verdicts: Iterable[Verdict], release: str, source: Literal["files", "cluster"] = "files"
) -> list[Verdict]:
    """Return the verdicts with the release and the rules that they are for, or `unknown` for each of them if there are
    no rules for the release. `source`: what they were calculated from."""
    rules = release_of(release)
    if has_rules(release):
        return [
            replace(verdict, source=source, release=release)
            if verdict.judged_by
            else replace(verdict, source=source, release=release, rules=rules.minor, not_compared=rules.not_compared)
            for verdict in verdicts
        ]
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
            source=source,
            release=release,
        )
        for verdict in verdicts
    ]

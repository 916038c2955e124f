"""What an environment says of findings that may stay: `checks.silenced`.

docs/checks.md has a section for each id.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from checks.finding import Finding
from settings.checks import Silence
from settings.errors import Place, nearest
from settings.paths import nearest_place

IDS = ("silence-unknown", "silence-refused", "silence-unused")
"""What is found about silences themselves."""

REFUSED = frozenset(
    {
        # Kueue's webhooks, or its controller at its start.
        "borrow-without-reclaim",
        "covered-resources",
        "framework-unknown",
        "group-overlap",
        "lending-over-nominal",
        "limit-without-cohort",
        # The API server.
        "kind-missing",
        "label-invalid",
        "launch-refused",
        "mount-duplicate",
        "name-derived",
        "name-duplicate",
        "namespace-missing",
        "resources-refused",
        "tenant-cluster-scoped",
        "webhook-silent",
        # Nothing can be built: the change would end a little later.
        "data-missing",
        "dockerfile-missing",
        "env-reserved",
        "manifest-mismatch",
        "manifest-missing",
        "trainjob-misfit",
    }
)
"""The rules whose findings somebody else insists on: to silence one would only put the failure off."""


def settled(
    found: Iterable[Finding], declared: Sequence[Silence], rules: Collection[str], places: Mapping[str, Place]
) -> list[Finding]:
    """The findings of these rules, each once with its place, silenced where the environment says so, and sorted.

    A silence that silences nothing is one more.
    """
    known = [_silenced(finding, declared) for finding in found]
    known += _unused(known, declared, rules)
    placed = {replace(each, where=nearest_place(places, each.path)) for each in known}
    return sorted(placed, key=lambda finding: finding.order)


def misplaced(declared: Sequence[Silence], rules: Collection[str]) -> Iterator[Finding]:
    """Silences of no rule, and of rules that cannot be silenced. `rules`: the ids of all there are."""
    for index, each in enumerate(declared):
        path = f"checks.silenced[{index}].rule"
        if each.rule not in rules:
            remedy = close if (close := nearest(each.rule, rules)).startswith("did") else "docs/checks.md lists them"
            yield Finding("silence-unknown", "error", path, f"no rule is {each.rule}", remedy)
        elif each.rule in REFUSED:
            message = f"{each.rule} cannot be silenced: the change would be refused all the same"
            yield Finding("silence-refused", "error", path, message, "mend what it finds, and take the entry out")


def _unused(found: Collection[Finding], declared: Sequence[Silence], rules: Collection[str]) -> Iterator[Finding]:
    for index, each in enumerate(declared):
        if each.rule in rules and each.rule not in REFUSED and not any(_meant(each, finding) for finding in found):
            message = f"there is no finding {each.rule} at {each.path}"
            yield Finding("silence-unused", "warning", f"checks.silenced[{index}]", message, "take the entry out")


def _silenced(finding: Finding, declared: Sequence[Silence]) -> Finding:
    reason = next((each.reason for each in declared if each.rule not in REFUSED and _meant(each, finding)), "")
    return replace(finding, silenced=reason) if reason else finding


def _meant(silence: Silence, finding: Finding) -> bool:
    """Whether the finding is of this rule, at this path or within it."""
    rest = finding.path.removeprefix(silence.path)
    return silence.rule == finding.id and finding.path.startswith(silence.path) and rest[:1] in ("", ".", "[")

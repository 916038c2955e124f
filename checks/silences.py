"""What an environment says of findings that may stay: `checks.silenced`."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from checks.finding import Finding
from checks.rule import Rule, Violation
from settings.checks import Silence
from settings.errors import Place, nearest
from settings.paths import nearest_place

SILENCE_UNKNOWN = Rule(
    id="silence-unknown",
    severity="error",
    summary="A silence names an unknown rule.",
    change="""
        trainstack:checks:
          silenced:
            - {rule: never-fit, path: "workloads.runs[digits]", reason: The quota is raised tomorrow.}
    """,
    remedy="Use an id that `trainstack explain` lists.",
)
SILENCE_REFUSED = Rule(
    id="silence-refused",
    severity="error",
    summary="A silence names a rule that cannot be silenced.",
    details=(
        "Kueue or the API server refuses the object anyway, or it cannot be built: the change would only fail later."
    ),
    change="""
        trainstack:checks:
          silenced:
            - {rule: covered-resources, path: queues, reason: We know.}
    """,
    remedy="Correct what the rule finds, and remove the entry.",
)
SILENCE_UNUSED = Rule(
    id="silence-unused",
    severity="warning",
    summary="A silence matches no finding.",
    details="Silences of rules that read the cluster are only looked at with `--cluster`.",
    change="""
        trainstack:checks:
          silenced:
            - {rule: volume-one-node, path: storage, reason: The cluster has one node.}
    """,
    remedy="Remove the entry.",
)
RULES: tuple[Rule, ...] = (SILENCE_UNKNOWN, SILENCE_REFUSED, SILENCE_UNUSED)
"""What is found about silences themselves."""


def settled(
    found: Iterable[Finding], declared: Sequence[Silence], rules: Iterable[Rule], places: Mapping[str, Place]
) -> list[Finding]:
    """The findings of these rules, each once with its place, silenced where the environment says so, and sorted.

    A silence that silences nothing is one more.
    """
    known = [_silenced(finding, declared) for finding in found]
    known += _unused(known, declared, {rule.id for rule in rules if rule.silenceable})
    placed = {replace(each, where=nearest_place(places, each.path)) for each in known}
    return sorted(placed, key=lambda finding: finding.order)


def misplaced(declared: Sequence[Silence], rules: Mapping[str, Rule]) -> Iterator[Finding]:
    """Silences of no rule, and of rules that cannot be silenced. `rules`: all rules over an environment, by id."""
    for index, each in enumerate(declared):
        path = f"checks.silenced[{index}].rule"
        rule = rules.get(each.rule)
        if rule is None:
            remedy = (
                close if (close := nearest(each.rule, rules)).startswith("did") else "`trainstack explain` lists them"
            )
            yield Finding.of(SILENCE_UNKNOWN, Violation(path, f"no rule is {each.rule}", remedy))
        elif not rule.silenceable:
            message = f"{each.rule} cannot be silenced: the change would be refused all the same"
            yield Finding.of(SILENCE_REFUSED, Violation(path, message, "mend what it finds, and take the entry out"))


def _unused(found: Collection[Finding], declared: Sequence[Silence], rules: Collection[str]) -> Iterator[Finding]:
    for index, each in enumerate(declared):
        if each.rule in rules and not any(_meant(each, finding) for finding in found):
            message = f"there is no finding {each.rule} at {each.path}"
            yield Finding.of(SILENCE_UNUSED, Violation(f"checks.silenced[{index}]", message, "take the entry out"))


def _silenced(finding: Finding, declared: Sequence[Silence]) -> Finding:
    reason = next((each.reason for each in declared if finding.rule.silenceable and _meant(each, finding)), "")
    return replace(finding, silenced=reason) if reason else finding


def _meant(silence: Silence, finding: Finding) -> bool:
    """Whether the finding is of this rule, at this path or within it."""
    rest = finding.path.removeprefix(silence.path)
    return silence.rule == finding.id and finding.path.startswith(silence.path) and rest[:1] in ("", ".", "[")

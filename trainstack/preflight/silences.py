"""What an environment says of findings that may stay: `checks.silenced`."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from trainstack.preflight.finding import Finding
from trainstack.preflight.rule import Rule, Violation
from trainstack.settings.errors import Place, closest
from trainstack.settings.sections.silences import Silence
from trainstack.settings.values.paths import nearest_place

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
SILENCE_RENAMED = Rule(
    id="silence-renamed",
    severity="warning",
    summary="A silence names a rule by a former id.",
    details="It still silences the findings that had this id. Former ids are in the rules' sections.",
    change="""
        trainstack:storage:
          volumes:
            - {name: training, accessModes: [ReadWriteMany]}
        trainstack:checks:
          silenced:
            - {rule: class-access-mode, path: "storage.volumes[training]", reason: One node writes.}
    """,
    remedy="Write the rule's id of today, which the message names.",
)
RULES: tuple[Rule, ...] = (SILENCE_UNKNOWN, SILENCE_REFUSED, SILENCE_UNUSED, SILENCE_RENAMED)
"""What is found about silences themselves."""


def settled(
    found: Iterable[Finding],
    declared: Sequence[Silence],
    rules: Iterable[Rule],
    places: Mapping[str, Place],
    before: Sequence[Finding] = (),
) -> list[Finding]:
    """The findings, each once with its place, silenced where the environment says so, and sorted.

    Args:
        found: what the rules found.
        declared: the silences.
        rules: a silence of one of them that matches no finding is a finding, too.
        places: where each value was set.
        before: what other rules of these ids found before.

    """
    known = [_silenced(finding, declared) for finding in found]
    silenceable = [rule for rule in rules if rule.silenceable]
    more = [*_unused([*known, *before], declared, silenceable), *_moved(known, declared, silenceable)]
    placed = {replace(each, where=nearest_place(places, each.path)) for each in (*known, *more)}
    return sorted(placed, key=lambda finding: finding.order)


def misplaced(declared: Sequence[Silence], rules: Mapping[str, Rule]) -> Iterator[Finding]:
    """Silences of no rule, by a former id, and of rules that cannot be silenced.

    `rules`: all rules over an environment, by id.
    """
    for index, silence in enumerate(declared):
        path = f"checks.silenced[{index}].rule"
        rule = rules.get(silence.rule)
        if rule is None and (today := [id_ for id_, each in rules.items() if silence.rule in each.formerly]):
            message = f"{silence.rule} is a former id"
            yield Finding.of(SILENCE_RENAMED, Violation(path, message, f"write {' or '.join(today)}"))
        elif rule is None:
            close = closest(silence.rule, rules)
            remedy = f"did you mean {close}?" if close else "`trainstack explain` lists them"
            yield Finding.of(SILENCE_UNKNOWN, Violation(path, f"no rule is {silence.rule}", remedy))
        elif not rule.silenceable:
            message = f"{silence.rule} cannot be silenced: the change would be refused all the same"
            remedy = "correct what it finds, and remove the entry"
            yield Finding.of(SILENCE_REFUSED, Violation(path, message, remedy))


def _unused(found: Collection[Finding], declared: Sequence[Silence], rules: Collection[Rule]) -> Iterator[Finding]:
    for index, silence in enumerate(declared):
        concerned = any(_names(silence, rule) for rule in rules)
        if concerned and not any(_matches(silence, finding) for finding in found):
            message = f"there is no finding {silence.rule} at {silence.path}"
            yield Finding.of(SILENCE_UNUSED, Violation(f"checks.silenced[{index}]", message, "take the entry out"))


def _moved(found: Collection[Finding], declared: Sequence[Silence], rules: Collection[Rule]) -> Iterator[Finding]:
    """Silences of a rule, some of whose findings another rule has now."""
    kept = {rule.id for rule in rules}
    for index, silence in enumerate(declared):
        matched = {finding.id for finding in found if silence.rule in kept and _matches(silence, finding)}
        for today in sorted(matched - {silence.rule}):
            message = f"{silence.rule} is a former id of {today} at {silence.path}"
            yield Finding.of(SILENCE_RENAMED, Violation(f"checks.silenced[{index}].rule", message, f"write {today}"))


def _silenced(finding: Finding, declared: Sequence[Silence]) -> Finding:
    matching = (silence.reason for silence in declared if finding.rule.silenceable and _matches(silence, finding))
    reason = next(matching, "")
    return replace(finding, silenced=reason) if reason else finding


def _matches(silence: Silence, finding: Finding) -> bool:
    """Whether the finding is of this rule, at this path or within it."""
    rest = finding.path.removeprefix(silence.path)
    return _names(silence, finding.rule) and finding.path.startswith(silence.path) and rest[:1] in ("", ".", "[")


def _names(silence: Silence, rule: Rule) -> bool:
    """Whether the silence is of this rule, by its id or a former one."""
    return silence.rule in (rule.id, *rule.formerly)

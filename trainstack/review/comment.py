"""Reports as the one comment of a pull request, in GitHub's Markdown and never longer than GitHub takes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from trainstack.review.diff import coloured, shortened
from trainstack.review.facts import WORDS
from trainstack.review.report import MOST_REPORTS, Report, ReportedFact, ReportedVerdict, Unreviewed
from trainstack.review.text import clean, code, fence, fit, width

T = TypeVar("T")

MARKER = "<!-- trainstack-preview -->"
"""The comment's first line, by which the next one finds it."""
LIMIT = 65_536
"""Characters of a comment, GitHub's own limit."""
_MOST_LINES = 25
"""Facts, and notes, that an environment shows of each."""
_MOST_REASONS = 5
"""Of one verdict."""
_MARGIN = 200
"""Characters that a block costs beside what is in it: its fence and what it says about what is left out."""


@dataclass(frozen=True)
class _Body:
    """The shortenable part of an environment."""

    text: str
    language: str
    title: str


def comment(
    reviews: Sequence[Report | Unreviewed],
    commit: str,
    whole: str,
    ignored: Sequence[str] = (),
    *,
    complete: bool = True,
) -> str:
    """The Markdown.

    Args:
        reviews: one for each environment.
        commit: what was reviewed.
        whole: the address of the page where the whole diffs are; empty where there is none.
        ignored: the files of reports that do not count.
        complete: False where the change may select more environments.

    """
    head = _head(reviews, commit, whole, ignored, complete=complete)
    told = [review for review in reviews if not _unchanged(review)]
    shown = min(len(told), MOST_REPORTS)
    bodies = [_body(review) for review in told[:shown]]
    while True:
        empty = _assembled(head, told, bodies, shown, 0)
        room = LIMIT - width(empty)
        if room >= 0 or shown == 0:
            break
        shown -= 1
    cap = fit([width(body.text) for body in bodies[:shown]], room)
    text = _assembled(head, told, bodies, shown, cap)
    # A fence grows with what it holds, by as much as nobody can tell before.
    while width(text) > LIMIT and cap > 0:
        cap = max(cap - (width(text) - LIMIT), 0)
        text = _assembled(head, told, bodies, shown, cap)
    return text


def _head(
    reviews: Sequence[Report | Unreviewed], commit: str, whole: str, ignored: Sequence[str], *, complete: bool
) -> list[str]:
    """What stands above the environments: never shortened."""
    link = f" [The whole diffs]({_link(whole)})." if whole else ""
    parts = [MARKER, f"## What this change does\n\nReviewed at {code(commit)}.{link}"]
    if missing := [review.stack for review in reviews if isinstance(review, Unreviewed)]:
        verb = "is" if len(missing) == 1 else "are"
        parts.append(f"**{len(missing)} of {len(reviews)} environments {verb} not reviewed: {_list(missing)}.**")
    if not complete:
        parts.append(
            "**Not reviewed:** this change may add environments that are missing here, since GitHub lists "
            "only the first 3000 changed files."
        )
    if not reviews:
        parts.append("There is no environment to review.")
    if unchanged := [review.stack for review in reviews if _unchanged(review)]:
        parts.append(f"By the files alone, nothing changes in {_list(unchanged, MOST_REPORTS)}.")
    if ignored:
        parts.append(f"Ignored reports for environments that this change does not select: {_list(ignored)}.")
    return parts


def _unchanged(review: Report | Unreviewed) -> bool:
    """Whether the environment needs no section: a comparison of its files found no difference."""
    return isinstance(review, Report) and review.kind == "static" and not review.error and review.counts.changes == 0


def _assembled(
    head: Sequence[str], reviews: Sequence[Report | Unreviewed], bodies: Sequence[_Body], shown: int, cap: int
) -> str:
    parts = [*head, *(_environment(*each, cap) for each in zip(reviews[:shown], bodies[:shown], strict=True))]
    if rest := [review.stack for review in reviews[shown:]]:
        parts.append(f"{len(rest)} more environments are left out here: {_list(rest)}.")
    return "\n\n".join(parts) + "\n"


def _environment(report: Report | Unreviewed, body: _Body, cap: int) -> str:
    if isinstance(report, Unreviewed):
        return f"### {code(report.stack)}\n\n**Not reviewed:** {code(report.why, 500)}"
    parts = [f"### {code(report.stack)}"]
    counts = report.counts
    if report.error:
        parts.append("**This change does not go through:**")
    else:
        parts.append(
            "| create | update | replace | delete | unchanged |\n| ---: | ---: | ---: | ---: | ---: |\n"
            f"| {counts.create} | {counts.update} | {counts.replace} | {counts.delete} | {counts.same} |"
        )
        parts.append(_meaning(report))
    parts.append(_admission(report))
    if report.kind == "static":
        parts.append(
            "From the files alone: no code of this pull request was run and no cluster was read. Operators' releases "
            "and the records of launched runs are not compared."
        )
    if report.notes:
        parts.append("\n".join(f"- {line}" for line in _some(report.notes, _warning)))
    if body.text:
        parts.append(_block(body, cap, folded=not report.error))
    return "\n\n".join(part for part in parts if part)


def _meaning(report: Report) -> str:
    if report.facts:
        return "\n".join(f"- {line}" for line in _some(report.facts, _line))
    if report.counts.changes:
        return "For people nothing changes: no run, volume, queue or quota."
    return "Nothing changes."


def _admission(report: Report) -> str:
    if not report.verdicts:
        return ""
    head = "Whether its runs would be admitted, on an idle cluster with the quota of these files:"
    return "\n".join([f"{head}\n", *(f"- {line}" for line in _some(report.verdicts, _verdict))])


def _verdict(said: ReportedVerdict) -> str:
    outcome = said.outcome if said.outcome.startswith("fits") else f"**{said.outcome}**"
    parts = [code(said.placed)] if said.placed else []
    parts += [f"borrows {code(said.borrowed)}"] if said.borrowed else []
    parts += [code(lack, 500) for lack in said.lacks[:_MOST_REASONS]]
    if said.remedies:
        parts.append(f"what would help: {' or '.join(code(remedy, 300) for remedy in said.remedies)}")
    return f"{_list(said.runs)}: {outcome}{': ' if parts else ''}{'; '.join(parts)}"


def _line(fact: ReportedFact) -> str:
    return WORDS[fact.meaning].format(*(code(name) for name in fact.names))


def _warning(note: str) -> str:
    return f"Warning: {code(note, 500)}"


def _some(things: Sequence[T], line: Callable[[T], str]) -> list[str]:
    lines = [line(each) for each in things[:_MOST_LINES]]
    rest = len(things) - len(lines)
    return [*lines, f"… and {rest} more"] if rest else lines


def _body(report: Report | Unreviewed) -> _Body:
    if isinstance(report, Unreviewed):
        return _Body("", "", "")
    if report.error:
        return _Body(clean(report.error).strip("\n"), "", "")
    title = "pulumi preview --diff" if report.kind == "preview" else "difference of the rendered manifests"
    text = clean(report.diff).strip("\n")
    return _Body(coloured(text) if report.kind == "preview" else text, "diff", title)


def _block(body: _Body, cap: int, *, folded: bool) -> str:
    text, note = body.text, ""
    if width(text) > cap:
        # The note and the fence come out of the environment's own share.
        text = _within(text, max(cap - _MARGIN, 0))
        left = width(body.text) - width(text)
        note = f"\n\nShortened: {left} of {width(body.text)} characters are left out; the whole is in the reports."
    if text:
        text = fence(text, body.language)
    if not folded:
        return f"{text}{note}".strip()
    return f"<details><summary>{body.title}</summary>\n\n{text}{note}\n\n</details>"


def _within(text: str, limit: int) -> str:
    """The text shortened until it has at most `limit` UTF-16 units."""
    size = limit
    while True:
        short = shortened(text, size)
        found = width(short)
        if found <= limit:
            return short
        size = min(size - 1, size * limit // found)


def _list(names: Iterable[str], most: int = 20) -> str:
    chosen = list(names)
    return ", ".join([*(code(name) for name in chosen[:most]), *(["…"] if len(chosen) > most else [])])


def _link(address: str) -> str:
    """An address in parentheses, from which no text can escape."""
    return "".join(
        letter if letter.isalnum() or letter in "-._~:/?&=%" else f"%{ord(letter):02X}" for letter in address
    )

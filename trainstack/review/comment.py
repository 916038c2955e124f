"""The comment on a pull request: all reports in GitHub's Markdown, within GitHub's limit."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar
from urllib.parse import quote

from trainstack.printable import clean
from trainstack.review.diff import color_diff, shorten_diff
from trainstack.review.facts import SENTENCES
from trainstack.review.markdown import code_span, fence, find_cap, utf16_length
from trainstack.review.report import MAX_REPORTS, Report, ReportedFact, ReportedVerdict, Unreviewed

T = TypeVar("T")

MARKER = "<!-- trainstack-preview -->"
"""The first line of the comment, by which an update finds it."""
LIMIT = 65_536
"""GitHub's limit for a comment, in characters."""
_MAX_LINES = 25
"""The maximum lines of each list of an environment: facts, verdicts, warnings."""
_MAX_REASONS = 5
_MARGIN = 200
"""The characters reserved for the fence of a block and for its note on omitted text."""


class _Body(NamedTuple):
    """The part of an environment's section that can be shortened."""

    text: str
    language: str = ""
    title: str = ""


def format_comment(
    reviews: Sequence[Report | Unreviewed],
    commit: str,
    address: str,
    ignored: Sequence[str] = (),
    *,
    complete: bool = True,
) -> str:
    """Return the Markdown of the comment, with a section for each environment that changes.

    Args:
        reviews: the reviews of all selected environments.
        commit: the reviewed commit.
        address: the page with the complete diffs; empty if there is none.
        ignored: the report files of environments that are not selected.
        complete: whether `reviews` has all environments that the change selects.

    """
    introduction = _introduction(reviews, commit, address, ignored, complete=complete)
    changed_reviews = [review for review in reviews if not _is_unchanged(review)]
    bodies = [_body(review) for review in changed_reviews[:MAX_REPORTS]]
    # Omit sections from the end until the others fit with empty bodies; the bodies then share the remaining space.
    while (room := LIMIT - utf16_length(_assemble(introduction, changed_reviews, bodies, 0))) < 0 and bodies:
        bodies.pop()
    cap = find_cap([utf16_length(body.text) for body in bodies], room)
    text = _assemble(introduction, changed_reviews, bodies, cap)
    # A fence is longer than any run of backticks in its text, so its size is known only now.
    while utf16_length(text) > LIMIT and cap > 0:
        cap = max(cap - (utf16_length(text) - LIMIT), 0)
        text = _assemble(introduction, changed_reviews, bodies, cap)
    return text


def _introduction(
    reviews: Sequence[Report | Unreviewed], commit: str, address: str, ignored: Sequence[str], *, complete: bool
) -> list[str]:
    # Escaped, an address cannot end the parentheses around it.
    link = f" [Complete diffs]({quote(address, safe=':/?&=%')})." if address else ""
    parts = [MARKER, f"## What this change does\n\nReviewed at {code_span(commit)}.{link}"]
    if unreviewed := [review.stack for review in reviews if isinstance(review, Unreviewed)]:
        verb = "is" if len(unreviewed) == 1 else "are"
        parts.append(
            f"**{len(unreviewed)} of {len(reviews)} environments {verb} not reviewed: {_format_names(unreviewed)}.**"
        )
    if not complete:
        parts.append(
            "**Not reviewed:** environments that this change adds may be missing here, because GitHub lists only the "
            "first 3000 changed files."
        )
    if not reviews:
        parts.append("There is no environment to review.")
    if unchanged_stacks := [review.stack for review in reviews if _is_unchanged(review)]:
        parts.append(f"No changes in the rendered manifests of {_format_names(unchanged_stacks, MAX_REPORTS)}.")
    if ignored:
        parts.append(f"Ignored reports for environments that this change does not select: {_format_names(ignored)}.")
    return parts


def _is_unchanged(review: Report | Unreviewed) -> bool:
    """Return whether an environment needs no section, because the comparison of its files found no difference."""
    return isinstance(review, Report) and review.kind == "static" and not review.error and review.counts.changes == 0


def _assemble(
    introduction: Sequence[str], reviews: Sequence[Report | Unreviewed], bodies: Sequence[_Body], cap: int
) -> str:
    parts = [*introduction, *(_section(review, body, cap) for review, body in zip(reviews, bodies, strict=False))]
    if omitted_stacks := [review.stack for review in reviews[len(bodies) :]]:
        parts.append(f"{len(omitted_stacks)} more environments are omitted: {_format_names(omitted_stacks)}.")
    return "\n\n".join(parts) + "\n"


def _section(report: Report | Unreviewed, body: _Body, cap: int) -> str:
    title = f"### {code_span(report.stack)}"
    if isinstance(report, Unreviewed):
        return f"{title}\n\n**Not reviewed:** {code_span(report.reason, 500)}"
    counts = report.counts
    if report.error:
        parts = [title, "**This change cannot be applied:**"]
    else:
        columns = {
            "create": counts.create,
            **({"import": counts.imported} if counts.imported else {}),
            "update": counts.update,
            "replace": counts.replace,
            "delete": counts.delete,
            "unchanged": counts.same,
        }
        table = "\n".join(
            f"| {' | '.join(map(str, row))} |" for row in (columns, ["---:"] * len(columns), columns.values())
        )
        effects = "No run, volume, queue or quota is affected." if counts.changes else "No changes."
        parts = [title, table, _format_bullets(report.facts, _format_fact) or effects]
    if report.verdicts:
        release = f", for {code_span(report.verdicts_for)}" if report.verdicts_for else ""
        verdicts_heading = f"Admission of its runs on an idle cluster, with the quota in these files{release}:"
        parts.append(f"{verdicts_heading}\n\n{_format_bullets(report.verdicts, _format_verdict)}")
    if report.kind == "static":
        parts.append(
            "Only files were compared: no code of this pull request was executed and no cluster was read. Operator "
            "releases and the records of launched runs are not part of the comparison."
        )
    if report.notes:
        parts.append(_format_bullets(report.notes, lambda note: f"Warning: {code_span(note, 500)}"))
    if body.text:
        parts.append(_format_body(body, cap, folded=not report.error))
    return "\n\n".join(parts)


def _format_verdict(verdict: ReportedVerdict) -> str:
    outcome = verdict.outcome if verdict.outcome.startswith("fits") else f"**{verdict.outcome}**"
    parts = [code_span(verdict.placed)] if verdict.placed else []
    parts += [f"borrows {code_span(verdict.borrowed)}"] if verdict.borrowed else []
    parts += [code_span(lack, 500) for lack in verdict.lacks[:_MAX_REASONS]]
    if verdict.remedies:
        parts.append(f"remedies: {' or '.join(code_span(remedy, 300) for remedy in verdict.remedies)}")
    return f"{_format_names(verdict.runs)}: {outcome}{': ' if parts else ''}{'; '.join(parts)}"


def _format_fact(fact: ReportedFact) -> str:
    return SENTENCES[fact.meaning].format(*(code_span(name) for name in fact.names))


def _format_bullets(items: Sequence[T], format_item: Callable[[T], str]) -> str:
    lines = [format_item(item) for item in items[:_MAX_LINES]]
    omitted_count = len(items) - len(lines)
    return "\n".join(f"- {line}" for line in ([*lines, f"… and {omitted_count} more"] if omitted_count else lines))


def _body(report: Report | Unreviewed) -> _Body:
    if isinstance(report, Unreviewed):
        return _Body("")
    if report.error:
        return _Body(clean(report.error).strip("\n"))
    text = clean(report.diff).strip("\n")
    if report.kind == "preview":
        return _Body(color_diff(text), "diff", "pulumi preview --diff")
    return _Body(text, "diff", "difference of the rendered manifests")


def _format_body(body: _Body, cap: int, *, folded: bool) -> str:
    text, note = body.text, ""
    if utf16_length(text) > cap:
        # The note and the fence count towards the space of the environment.
        text = _shorten_to_width(text, max(cap - _MARGIN, 0))
        omitted = utf16_length(body.text) - utf16_length(text)
        note = (
            f"\n\nShortened: {omitted} of {utf16_length(body.text)} characters are omitted; the report has all of them."
        )
    if text:
        text = fence(text, body.language)
    if not folded:
        return f"{text}{note}".strip()
    return f"<details><summary>{body.title}</summary>\n\n{text}{note}\n\n</details>"


def _shorten_to_width(text: str, limit: int) -> str:
    """Shorten the text to at most `limit` UTF-16 units."""
    size = limit
    while (short_width := utf16_length(short_text := shorten_diff(text, size))) > limit:
        size = min(size - 1, size * limit // short_width)
    return short_text


def _format_names(names: Iterable[str], limit: int = 20) -> str:
    spans = [code_span(name) for name in names]
    return ", ".join([*spans[:limit], *(["…"] if len(spans) > limit else [])])

"""The comment: it is valid, within the limit, and its content cannot break out."""

from pathlib import Path

import pytest

from tests.unit.review.samples import DATA, make_report, recorded
from trainstack.review import engine
from trainstack.review.comment import LIMIT, MARKER, format_comment
from trainstack.review.diff import shorten_diff
from trainstack.review.facts import SENTENCES
from trainstack.review.markdown import utf16_length
from trainstack.review.report import (
    Counts,
    InvalidReportError,
    Report,
    ReportedFact,
    ReportedVerdict,
    read_report,
    write_report,
)

EVIL = "`@everyone` <script>alert(1)</script> </details>\n```\n# Heading\n@octocat ![](https://x.example/)\n````\n-->"


def comment_of(*reports: Report) -> str:
    """Return the comment of these reports."""
    return format_comment(reports, "abc123", "https://example.org/run/1")


def test_a_preview_as_markdown() -> None:
    """The comment of two environments, one of them refused, from recorded output of the engine."""
    reports = [engine.build_report(stack, 7, *recorded(stack), set()) for stack in ("queues", "refused")]
    assert comment_of(*reports) == (DATA / "comment.md").read_text(encoding="utf-8")


def test_imports_have_a_column_of_their_own() -> None:
    """The column exists only with imports; the sentence names the object."""
    fact = ReportedFact(meaning="object-imported", names=("PersistentVolumeClaim", "research/data"))
    text = comment_of(make_report(counts=Counts(create=1, imported=2, same=3), facts=(fact,)))
    assert "| create | import | update | replace | delete | unchanged |\n" in text
    assert "\n| 1 | 2 | 0 | 0 | 0 | 3 |\n" in text
    assert "- Imports `PersistentVolumeClaim` `research/data`, which exists in the cluster" in text


def outside_of_code(markdown: str) -> str:
    """Return the Markdown without its fences and code spans, as CommonMark parses it."""
    result: list[str] = []
    closing = ""
    for line in markdown.split("\n"):
        if closing:
            if line.strip() and set(line.strip()) == {"`"} and len(line.strip()) >= len(closing):
                closing = ""
        elif line.startswith("```"):
            closing = "`" * (len(line) - len(line.lstrip("`")))
        else:
            result.append("".join(line.split("`")[::2]))
    assert closing == ""
    return "\n".join(result)


def test_content_stays_in_code() -> None:
    """Foreign text never becomes a mention, HTML, a heading or a link."""
    reports = [
        make_report(
            diff=EVIL,
            notes=(EVIL,),
            verdicts_for=EVIL,
            verdicts=(
                ReportedVerdict(
                    runs=(EVIL,), outcome="unknown", placed=EVIL, borrowed=EVIL, lacks=(EVIL,), remedies=(EVIL,)
                ),
            ),
            facts=tuple(
                ReportedFact(meaning=meaning, names=(EVIL,) * sentence.count("{}"))
                for meaning, sentence in SENTENCES.items()
            ),
        ),
        make_report(stack="static", kind="static", diff=EVIL),
        make_report(stack="wrong", error=EVIL),
    ]
    bare = outside_of_code(format_comment(reports, EVIL, "https://example.org/) @octocat <script>"))
    assert "@" not in bare
    assert "<script" not in bare
    assert "# Heading" not in bare
    assert "x.example" not in bare
    assert bare.count("<details>") == bare.count("</details>") == 2
    assert bare.count(MARKER) == 1


@pytest.mark.parametrize("letter", ["x", "🙂", "`", "@"])
def test_a_comment_is_never_too_long(letter: str) -> None:
    """The longest environment is cut, with a note; the others are complete."""
    long = "\n".join(letter * 90 for _ in range(2000))
    text = comment_of(make_report(stack="large", diff=long), make_report(stack="small", diff="small and whole"))
    assert LIMIT * 0.9 < utf16_length(text) <= LIMIT
    assert "small and whole" in text
    assert text.count("Shortened: ") == 1
    outside_of_code(text)


def test_long_errors_and_many_facts_and_environments_fit() -> None:
    """Facts are counted when there are too many; environments that do not fit are named."""
    many = tuple(ReportedFact(meaning="namespace-lost", names=(f"n{number}",)) for number in range(500))
    text = comment_of(*(make_report(stack=f"e{number}", facts=many, error="") for number in range(100)))
    assert utf16_length(text) <= LIMIT
    assert "… and 475 more" in text
    assert "more environments are omitted: `e" in text
    assert utf16_length(comment_of(make_report(error="e" * 100_000))) <= LIMIT


def test_objects_are_shortened_before_they_are_left_out() -> None:
    """Each long object keeps its first lines and the count of the rest; short objects are complete."""
    long = "\n".join(["+ kubernetes:v1:A: (create) long", *["    line"] * 500])
    short = "~ kubernetes:v1:B: (update) short\n    all of it"
    text = shorten_diff(f"{long}\n{short}", 400)
    assert len(text) <= 400
    assert text.startswith("+ kubernetes:v1:A: (create) long\n    line\n")
    assert "more lines of this object\n" in text
    assert text.endswith(short)


def test_verdicts_have_what_is_missing_and_the_remedies() -> None:
    """They are shown also where they are the reason of a refusal."""
    verdicts = (
        ReportedVerdict(
            runs=("big", "bigger"),
            outcome="never fits",
            lacks=("4 pods need 8 nvidia.com/gpu; there are 4",),
            remedies=("run 2 pods instead of 4", "raise nominalQuota"),
        ),
        ReportedVerdict(runs=("small",), outcome="fits by borrowing", placed="on a100", borrowed="2 cpu on a100"),
    )
    release = "Kueue v0.20.7, from the files, by the rules of v0.19; v0.20 is not compared"
    for report in (
        make_report(verdicts=verdicts, verdicts_for=release),
        make_report(verdicts=verdicts, verdicts_for=release, error="refused"),
    ):
        assert (
            f"Admission of its runs on an idle cluster, with the quota in these files, for `{release}`:\n\n"
            "- `big`, `bigger`: **never fits**: `4 pods need 8 nvidia.com/gpu; there are 4`; remedies: "
            "`run 2 pods instead of 4` or `raise nominalQuota`\n"
            "- `small`: fits by borrowing: `on a100`; borrows `2 cpu on a100`\n"
        ) in comment_of(report)


def test_a_change_without_effect_on_people_is_reported_as_such() -> None:
    """The same holds without changes, and without environments."""
    assert "No run, volume, queue or quota is affected." in comment_of(make_report())
    assert "No changes." in comment_of(make_report(counts=Counts(same=3)))
    assert "There is no environment to review." in comment_of()


def test_reports_are_written_and_read(tmp_path: Path) -> None:
    """The whole diff is in a separate file, for people."""
    report = make_report(diff="+ a", pull=7, facts=(ReportedFact(meaning="kind-lost", names=("x",)),))
    write_report(report, tmp_path)
    assert read_report(tmp_path, "dev") == report
    assert (tmp_path / "dev.diff").read_text(encoding="utf-8") == "+ a\n"
    assert read_report(tmp_path / "none", "dev") is None


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"kind": "preview", "stack": "other"}',
        '{"kind": "preview", "stack": "../dev"}',
        '{"kind": "preview", "stack": "dev", "body": "# mine"}',
        '{"kind": "preview", "stack": "dev", "counts": {"create": -1}}',
        '{"kind": "preview", "stack": "dev", "facts": [{"meaning": "free text", "names": []}]}',
        '{"kind": "preview", "stack": "dev", "verdicts": [{"outcome": "free text"}]}',
        '{"kind": "preview", "stack": "dev", "facts": [{"meaning": "kind-lost", "names": ["a", "b"]}]}',
    ],
)
def test_an_invalid_report_is_refused(tmp_path: Path, text: str) -> None:
    """Anyone may have written a report: unknown keys, free text and foreign names are errors."""
    (tmp_path / "dev.json").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidReportError, match=r"dev\.json"):
        read_report(tmp_path, "dev")


def test_a_link_is_no_report(tmp_path: Path) -> None:
    """Its target could be anywhere."""
    write_report(make_report(), tmp_path / "there")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "dev.json").symlink_to(tmp_path / "there" / "dev.json")
    with pytest.raises(InvalidReportError, match="regular file"):
        read_report(tmp_path / "here", "dev")

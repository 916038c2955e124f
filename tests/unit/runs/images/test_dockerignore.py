"""The rules of a `.dockerignore`, by the files that a build context has."""

import os
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from tests.unit.runs.images.test_content_tags import make_context, names
from trainstack.files.regular import FileError

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize(
    ("patterns", "kept"),
    [
        ("", ["Dockerfile", "a.md", "a.py", "sub/b.md", "sub/deep/c.py"]),
        ("*.md", ["Dockerfile", "a.py", "sub/b.md", "sub/deep/c.py"]),
        ("**/*.md", ["Dockerfile", "a.py", "sub/deep/c.py"]),
        ("sub/", ["Dockerfile", "a.md", "a.py"]),
        ("sub/*.md", ["Dockerfile", "a.md", "a.py", "sub/deep/c.py"]),
        ("sub/**", ["Dockerfile", "a.md", "a.py"]),
        ("*\n!*.py", ["Dockerfile", "a.py"]),
        ("*\n!sub/deep/*.py", ["Dockerfile", "sub/deep/c.py"]),
        ("**/deep", ["Dockerfile", "a.md", "a.py", "sub/b.md"]),
        ("s**c.py", ["Dockerfile", "a.md", "a.py", "sub/b.md"]),
        ("a**y", ["Dockerfile", "a.md", "a.py", "sub/b.md", "sub/deep/c.py"]),
        ("./sub/./deep/../*.md", ["Dockerfile", "a.md", "a.py", "sub/deep/c.py"]),
        ("*\n! a\\.py", ["Dockerfile", "a.py"]),
        ("[^a].md\n", ["Dockerfile", "a.md", "a.py", "sub/b.md", "sub/deep/c.py"]),
        ("[a-b].m?", ["Dockerfile", "a.py", "sub/b.md", "sub/deep/c.py"]),
        ("Dockerfile", ["Dockerfile", "a.md", "a.py", "sub/b.md", "sub/deep/c.py"]),
    ],
)
def test_dockerignore(tmp_path: Path, patterns: str, kept: list[str]) -> None:
    """Patterns have their usual meaning; the last match decides; the Dockerfile is always included."""
    context = make_context(tmp_path)
    for name in ("a.md", "a.py", "sub/b.md", "sub/deep/c.py"):
        (context / name).parent.mkdir(parents=True, exist_ok=True)
        (context / name).write_text(name)
    (context / ".dockerignore").write_text(patterns)
    assert [name for name in names(context) if name != ".dockerignore"] == kept


@pytest.mark.parametrize(
    ("patterns", "ignored"),
    [
        ("**.env", [".env", "a/prod.env", "prod.env"]),
        ("**secret", ["a/mysecret", "secret/x"]),
        ("**/mysecret", ["a/mysecret"]),
        ("a**", ["a/mysecret", "a/prod.env", "a|b"]),
        ("**", [".env", "[", "a/mysecret", "a/prod.env", "a|b", "prod.env", "secret/x", "ß", "#note"]),
        ("\ufeff*.env", [".env", "prod.env"]),
        ("# note\n#note\n", []),
        (" #note", ["#note"]),
        ("\\#note", ["#note"]),
        ("*.env\r\nsecret\r\n", [".env", "prod.env", "secret/x"]),
        ("*.env\n./!prod.env", [".env"]),
        ("//a", ["a/mysecret", "a/prod.env"]),
        ("?", ["[", "a/mysecret", "a/prod.env", "ß"]),
        ("[[:alpha:]]*[[:alpha:]]", ["a|b", "prod.env", "secret/x"]),
        ("[^a]", ["[", "ß"]),
        ("\\[", ["["]),
        ("[a&&b]?b", ["a|b"]),
        ("a|b", ["a|b"]),
        ("sec{1}*", ["secret/x"]),
        ("s?c|*[-x", None),
    ],
)
def test_patterns_match_as_those_of_docker(tmp_path: Path, patterns: str, ignored: list[str] | None) -> None:
    """The results are those of github.com/moby/patternmatcher, including the unusual ones; None is an error."""
    paths = (".env", "#note", "[", "a/mysecret", "a/prod.env", "a|b", "prod.env", "secret/x", "ß")
    context = make_context(tmp_path, **{path.replace("/", "__"): "" for path in paths})
    (context / ".dockerignore").write_text(patterns, encoding="utf-8", newline="")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if ignored is None:
            with pytest.raises(FileError, match="has an invalid pattern in line 1"):
                names(context)
        else:
            assert {*paths} - {*names(context)} == {*ignored}


@pytest.mark.parametrize("pattern", ["[z-a]", "[]", "[-a]", "x[", "x\\", "!", "! /", "*[a"])
def test_an_invalid_pattern_is_reported(tmp_path: Path, pattern: str) -> None:
    """The error has file, line, pattern and remedy."""
    context = make_context(tmp_path)
    (context / ".dockerignore").write_text(f"*.md\n{pattern}\n")
    message = f"has an invalid pattern in line 2, {re.escape(repr(pattern))}: .*; correct or remove it: .*dockerignore"
    with pytest.raises(FileError, match=message):
        names(context)


def test_patterns_in_another_encoding_are_refused(tmp_path: Path) -> None:
    """The error has the file and the remedy."""
    context = make_context(tmp_path)
    (context / ".dockerignore").write_bytes("*.md\nprüfung\n".encode("latin-1"))
    with pytest.raises(FileError, match=r"is not UTF-8 text: .*; save it as UTF-8: .*dockerignore"):
        names(context)


def test_a_file_name_in_another_encoding_is_matched(tmp_path: Path) -> None:
    """A byte that is no UTF-8 is one character."""
    context = make_context(tmp_path)
    (context / os.fsdecode(b"pr\xfcfung")).touch()
    (context / ".dockerignore").write_text("pr?f*\n")
    assert names(context) == [".dockerignore", "Dockerfile"]


def test_matching_is_linear(tmp_path: Path) -> None:
    """A pattern that backtracks in nested folders takes no time that a user notices."""
    folder = tmp_path.joinpath(*["a"] * 40)
    folder.mkdir(parents=True)
    for place in (folder, *folder.parents[:40]):
        (place / "file").touch()
    (tmp_path / ".dockerignore").write_text(f"{'**/a/' * 10}x\n")
    start = time.perf_counter()
    assert len(names(tmp_path)) == 42
    assert time.perf_counter() - start < 2


@pytest.mark.parametrize(("patterns", "imported"), [(None, False), ("# note\n\n", False), ("*.md\n", True)])
def test_re2_is_loaded_only_for_patterns(tmp_path: Path, patterns: str | None, imported: bool) -> None:
    """Python's own files are ignored without it."""
    context = make_context(tmp_path, main="x", a__main="x", **{"a__module.pyc": ""})
    (context / "a" / "__pycache__").mkdir()
    (context / "a" / "__pycache__" / "x").touch()
    if patterns is not None:
        (context / ".dockerignore").write_text(patterns)
    program = (
        "import sys; from pathlib import Path; from trainstack.runs.images.content_tags import context_files; "
        "print([str(path) for path in context_files(Path(sys.argv[1]))], 're2' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(context)]
    stdout = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    kept = [*([".dockerignore"] if patterns is not None else []), "Dockerfile", "a/main", "main"]
    assert stdout == f"{kept} {imported}\n"

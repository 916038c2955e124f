"""The words that the project does not use, in module names, docstrings and messages of the library.

`python -m tests.unit.test_language [FOLDER …]` lists the places.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.unit.sources import syntax

ROOT = Path(__file__).resolve().parents[2]
# The bytes of these files are part of image tags and cache keys of built tools; manifests.py imports places.py.
DEV = ROOT / "trainstack" / "dev"
KEYED = {DEV / "toolchain" / f"{name}.py" for name in ("manifests", "places", "provider_sources")} | {
    DEV / "cluster" / "sites" / "mnist_example.py",
    *(DEV / "cluster" / "sites").glob("*/image/*.py"),
}

# Programs and objects do not speak, wish or travel; people are named by their part; a predicate is negated by "not".
WORDS = (
    r"tells?|told|telling|says?|said|saying|wants?|wanted|stands?|stood|lies|comes?|came|goes|gone|went"
    r"|nobody|somebody|likewise|namesakes?|whoever|thereof|beside|theirs|ours|alike|halves|the house"
    r"|of these|of those|for ever|by itself|as it is|what it is|gets? along|is none|are none"
)
IS_NO = r"(?<!there )\b(?:is|are|was|were) no (?!longer|more)\w"
DENIED = re.compile(rf"(?<![\w/.{{-])(?:{WORDS})(?![\w(=}}-])|{IS_NO}", re.IGNORECASE)
MODULES = frozenset(
    ("words", "telling", "took", "trees", "tries", "places", "halves", "departing", "ending", "decided", "hope", "kin")
) | {"scene", "aftermath", "utils", "helpers", "misc", "common"}
# Names of shell scripts, whose bytes are part of objects and of tools.
SCRIPT = "_SCRIPT"


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the lines of docstrings and messages (strings of at least three words), `_` in place of expressions."""
    nodes = list(ast.walk(tree))
    scripts = {
        id(part)
        for node in nodes
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == SCRIPT for t in node.targets)
        for part in ast.walk(node.value)
    }
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "_" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts | scripts:
            text = node.value
        else:
            continue
        if len(text.split()) >= 3:
            for offset, line in enumerate(text.splitlines()):
                yield node.lineno + offset, re.sub(r"`[^`]*`", "", line)


def places(*folders: Path) -> list[str]:
    found = []
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            if path in KEYED:
                continue
            name = path.relative_to(ROOT).as_posix()
            if path.stem in MODULES:
                found.append(f"{name}: module name")
            for line, text in _texts(syntax(path)):
                found += [f"{name}:{line}: {match[0]!r} in: {text.strip()[:110]}" for match in DENIED.finditer(text)]
    return found


def test_the_library_uses_plain_words() -> None:
    assert places(ROOT / "trainstack") == []


if __name__ == "__main__":
    print(*places(*(Path(folder).resolve() for folder in sys.argv[1:] or ["trainstack"])), sep="\n")

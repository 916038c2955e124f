"""The syntax trees of our files, shared by several tests: parsing the library takes half a second."""

import ast
from functools import cache
from pathlib import Path


@cache
def syntax(file: Path) -> ast.Module:
    """Return the syntax tree of a file, which callers must not change."""
    return ast.parse(file.read_text(encoding="utf-8"))

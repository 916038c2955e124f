"""The documentation's site (`make site`): the hooks of mkdocs, which adapt pages that are written for GitHub.

Files outside `docs/` are not part of the site: a link to one leads to the repository, whose address is
`extra.repository` of mkdocs.yml. Without an address, only the text of the link is kept.
"""

import logging
import os
import re
from pathlib import Path
from typing import Any

from trainstack.toolchain.places import CHECKOUT

GENERATED = {
    "README.md": "overview.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "how-to-contribute.md",
    "SECURITY.md": "security.md",
}
"""Pages outside `docs/` by their place in the site."""
_DOCS = "docs"
# A link in code is text, but the text of a link may be code.
_LINK = re.compile(
    r"^```.*?^```$|(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^)\s]+)\)|`[^`\n]+`",
    re.MULTILINE | re.DOTALL,
)
_FENCE = re.compile(r"^```(?P<language>\w+) (?P<words>[^\n]+)$", re.MULTILINE)
# mkdocs counts the warnings of this logger: with `--strict`, they fail the build.
_log = logging.getLogger("mkdocs.hooks.trainstack")


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File  # noqa: PLC0415 (only the site's own environment has mkdocs)

    for source, place in GENERATED.items():
        files.append(File.generated(config, place, content=(CHECKOUT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    place = page.file.src_uri
    source = next((source for source, site_path in GENERATED.items() if site_path == place), f"{_DOCS}/{place}")
    text, missing = adapt_page(markdown, source, CHECKOUT, config.extra["repository"])
    for target in missing:
        _log.warning("%s has a link to %s, which does not exist", source, target)
    return text


def adapt_page(markdown: str, source: str, root: Path, repository: str) -> tuple[str, list[str]]:
    """Return the page for the site, and the targets outside `docs/` that do not exist.

    `source` is the page's path in the checkout `root`. mkdocs itself checks links within `docs/`.
    """
    missing: list[str] = []

    def replace_link(match: re.Match[str]) -> str:
        target, _, anchor = (match["target"] or "").partition("#")
        if not target or ":" in target:
            return match[0]
        path = os.path.normpath(Path(source).parent / target)
        if not (root / path).exists() and not path.startswith(f"{_DOCS}/"):
            missing.append(target)
        address = _address(path, source, root, repository)
        if address is None:
            return match["text"]
        return f"{match['image']}[{match['text']}]({address}{'#' if anchor else ''}{anchor})"

    return _FENCE.sub(_replace_fence, _LINK.sub(replace_link, markdown)), missing


def _replace_fence(match: re.Match[str]) -> str:
    """Keep the language of a block; the name of the file that a reader edits becomes its title."""
    kind, _, file = match["words"].partition(" ")
    title = f' title="{file}"' if kind == "edit" else ""
    return f"```{match['language']}{title}"


def _address(path: str, source: str, root: Path, repository: str) -> str | None:
    """Return the target of a link, relative to the page's place in the site; None without a repository."""
    if (root / path).is_dir() and (root / path / "README.md").is_file() and path.startswith(f"{_DOCS}/"):
        path = f"{path}/README.md"
    place = GENERATED.get(path) or (path.removeprefix(f"{_DOCS}/") if path.startswith(f"{_DOCS}/") else None)
    if place is not None and not (root / path).is_dir():
        page = GENERATED.get(source) or source.removeprefix(f"{_DOCS}/")
        return os.path.relpath(place, Path(page).parent)
    kind = "tree" if (root / path).is_dir() else "blob"
    return f"{repository.rstrip('/')}/{kind}/HEAD/{path}" if repository else None

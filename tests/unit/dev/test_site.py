"""The documentation's site: its pages, and its copies of other files."""

import re
from pathlib import Path

import pytest
import yaml

from trainstack.dev.site import GENERATED, adapt_page

ROOT = Path(__file__).resolve().parents[3]
CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
REPOSITORY = "https://git.example.org/ml/trainstack"


@pytest.mark.parametrize(
    ("source", "link", "expected"),
    [
        ("docs/runs.md", "[a](environments.md#secrets)", "[a](environments.md#secrets)"),
        ("docs/runs.md", "[a](schema/workload.schema.json)", "[a](schema/workload.schema.json)"),
        ("docs/runs.md", "[a](#names)", "[a](#names)"),
        ("docs/runs.md", "[a](https://example.org/x.md)", "[a](https://example.org/x.md)"),
        ("docs/runs.md", "[`dev`](../Pulumi.dev.yaml)", f"[`dev`]({REPOSITORY}/blob/HEAD/Pulumi.dev.yaml)"),
        ("docs/start/owner.md", "[a](../../tests)", f"[a]({REPOSITORY}/tree/HEAD/tests)"),
        ("docs/start/owner.md", "[a](../decisions)", "[a](../decisions/README.md)"),
        ("docs/start/owner.md", "[a](../../CHANGELOG.md#x)", "[a](../changelog.md#x)"),
        ("docs/runs.md", "[a](schema)", f"[a]({REPOSITORY}/tree/HEAD/docs/schema)"),
        ("docs/index.md", "[a](../README.md#try-it)", "[a](overview.md#try-it)"),
        ("README.md", "[a](docs/runs.md)", "[a](runs.md)"),
        ("README.md", "![a](docs/compare.png)", "![a](compare.png)"),
        ("README.md", "[a](docs/decisions)", "[a](decisions/README.md)"),
        ("README.md", "`[a](docs/runs.md)`", "`[a](docs/runs.md)`"),
        ("README.md", "```sh\n[a](docs/runs.md)\n```", "```sh\n[a](docs/runs.md)\n```"),
    ],
)
def test_links_lead_to_the_site_or_the_repository(source: str, link: str, expected: str) -> None:
    """No relative path leaves the site."""
    assert adapt_page(link, source, ROOT, REPOSITORY) == (expected, [])


def test_without_a_repository_the_text_of_a_link_is_kept() -> None:
    """A link to a file outside the site keeps only its text."""
    assert adapt_page("See [`x`](../Makefile).", "docs/runs.md", ROOT, "") == ("See `x`.", [])


def test_a_broken_link_out_of_the_site_is_reported() -> None:
    """mkdocs reports the others."""
    assert adapt_page("[a](../Makefil)", "docs/runs.md", ROOT, REPOSITORY)[1] == ["../Makefil"]


def test_blocks_keep_their_language_and_the_name_of_an_edited_file() -> None:
    """Words about the test of a block are dropped."""
    text = "```yaml edit Pulumi.dev.yaml\na: 1\n```\n```yaml change\na: 1\n```\n```sh\nls\n```\n"
    expected = '```yaml title="Pulumi.dev.yaml"\na: 1\n```\n```yaml\na: 1\n```\n```sh\nls\n```\n'
    assert adapt_page(text, "docs/runs.md", ROOT, REPOSITORY) == (expected, [])


def test_the_navigation_has_every_page() -> None:
    """Each page occurs once, also those generated from files outside docs/."""
    listed = re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", CONFIG, re.MULTILINE)
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted([*pages, *GENERATED.values()])


def test_a_broken_link_fails_the_build() -> None:
    """mkdocs' strict mode checks each kind of fault that it supports; no page loads from another host."""
    config = yaml.load(re.sub(r"!!?(?:ENV|python/\S+)", "", CONFIG), yaml.SafeLoader)
    assert config["strict"] is True
    build = next(line for line in (ROOT / "Makefile").read_text().splitlines() if line.endswith("-m mkdocs build"))
    assert build.startswith("\t"), "with --quiet, mkdocs does not count the warnings"
    assert {level for part in config["validation"].values() for level in part.values()} == {"warn"}
    assert config["theme"]["font"] is False
    assert "repo_url" not in config, "mkdocs-material's pages would ask the host of the repository for its stars"


def test_charts_follow_the_palette_of_the_page() -> None:
    """PNGs are drawn on white, and SVGs have both schemes; a reader may select another one than the system's."""
    style = (ROOT / "docs" / "site.css").read_text(encoding="utf-8")
    schemes = set(re.findall(r"^ +scheme: (\w+)$", CONFIG, re.MULTILINE))
    assert set(re.findall(r'\[data-md-color-scheme="(\w+)"\] img \{', style)) == schemes == {"default", "slate"}
    assert '[data-md-color-scheme="slate"] .md-typeset img[src$=".png"]' in style
    assert "site.css" in yaml.load(re.sub(r"!!?(?:ENV|python/\S+)", "", CONFIG), yaml.SafeLoader)["extra_css"]


def test_the_page_of_decisions_lists_each_one() -> None:
    """The list has the title of each."""
    folder = ROOT / "docs" / "decisions"
    rows = []
    for page in sorted(folder.glob("0*.md")):
        number, title = page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ").split(": ", 1)
        rows.append(f"| [{number}]({page.name}) | {title} |")
    assert (folder / "README.md").read_text(encoding="utf-8").endswith("\n".join(rows) + "\n")

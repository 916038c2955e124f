"""The pictures of terminals in the documentation."""

import re
from pathlib import Path

import pytest

from trainstack.dev.terminal_pictures import CHART_FILE, FOLDER, PICTURES, draw_chart, draw_svg

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_what_its_command_prints_now(name: str) -> None:
    """Otherwise run `trainstack dev terminal-pictures`. The picture loads nothing from another host."""
    drawn = draw_svg(name, PICTURES[name])
    assert (ROOT / FOLDER / f"{name}.svg").read_text(encoding="utf-8") == drawn
    assert "url(http" not in drawn


def test_the_chart_is_what_the_forecast_draws_now() -> None:
    """Otherwise run `trainstack dev terminal-pictures`. The picture of the README shows the run that gains."""
    assert (ROOT / CHART_FILE).read_bytes() == draw_chart()
    first_picture = re.search(r"!\[[^]]*\]\((.*?)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert first_picture is not None
    assert first_picture[1] == str(CHART_FILE)


def test_every_picture_is_drawn_and_shown() -> None:
    """The script draws every picture file, and each is on a page."""
    assert {file.stem for file in (ROOT / FOLDER).iterdir()} == {*PICTURES}
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert [name for name in PICTURES if f"terminal/{name}.svg)" not in text] == []

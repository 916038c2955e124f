"""Render pages from `templates/`: single HTML files that load no other resource."""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from trainstack.reports import charts


def render(template: str, title: str, **values: Any) -> str:
    """Render a template. Every value is escaped, so names from files and logs remain text."""
    page = _templates().get_template(f"{template}.html.j2")
    return page.render(title=title, light=charts.css_variables(), dark=charts.css_variables(dark=True), **values)


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("trainstack.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )

import re
from collections.abc import Iterator
from inspect import cleandoc
from textwrap import fill, indent
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from trainstack.cli.output.console import fail, out, show, show_json
from trainstack.cli.session import JsonOption
from trainstack.errors import ExitCode
from trainstack.preflight.all_rules import ALL_RULES, RULES_BY_ID
from trainstack.preflight.rule import Rule
from trainstack.preflight.rules_page import PAGE, rule_properties, rule_scopes
from trainstack.settings.errors import closest_name

_WIDTH = 100
_LINK = re.compile(r"\[([^]]+)\]\(([^)#]*)(#[^)]*)?\)")


def explain(
    rule: Annotated[
        str | None, typer.Argument(metavar="[RULE]", help="The id in a finding's brackets (default: all rules).")
    ] = None,
    *,
    json_: JsonOption = False,
) -> None:
    """Explain a rule of `trainstack check`: meaning, example and remedy. Without RULE, list all rules.

    docs/checks.md has the same texts.

    Examples:
      trainstack explain
      trainstack explain never-fits
      trainstack explain never-fits --json
    """
    if rule is None:
        _list_rules(as_json=json_)
        return
    explained_rule = RULES_BY_ID.get(rule)
    if explained_rule is None:
        fail(_describe_unknown_rule(rule), ExitCode.USAGE)
    if json_:
        show_json(_as_data(explained_rule))
    else:
        out.print("\n\n".join(_paragraphs(explained_rule)))


def _describe_unknown_rule(word: str) -> str:
    close = closest_name(word, RULES_BY_ID)
    return f"unknown rule {word}; {f'did you mean {close}?' if close else '`trainstack explain` lists all rules'}"


def _list_rules(*, as_json: bool) -> None:
    if as_json:
        show_json(list(map(_as_data, ALL_RULES)))
        return
    table = Table("RULE", "SEVERITY", "MEANING", box=None, pad_edge=False, header_style="bold")
    for rule in ALL_RULES:
        table.add_row(Text(rule.id), Text(rule.severity), Text(_plain_text(rule.summary)))
    show(table)


def _paragraphs(rule: Rule) -> Iterator[str]:
    yield rule.id
    yield _wrap(" ".join(filter(None, [rule.summary, rule.details])))
    yield _wrap(rule_properties(rule))
    if rule.example:
        yield _wrap(f"Example: {rule.example}")
    if rule.change:
        yield "Example, as a change of a new project:"
        yield indent(cleandoc(rule.change), "  ")
    yield _wrap(f"Remedy: {rule.remedy}")


def _wrap(sentences: str) -> str:
    return fill(_plain_text(sentences), min(_WIDTH, out.width), break_long_words=False, break_on_hyphens=False)


def _plain_text(markdown: str) -> str:
    """Replace a link by `text (file)`, and a link within the page by its text."""
    return _LINK.sub(lambda link: f"{link[1]} ({PAGE.parent / link[2]})" if link[2] else link[1], markdown)


def _as_data(rule: Rule) -> dict[str, Any]:
    texts = {name: getattr(rule, name) for name in ("id", "severity", "summary", "details", "example", "remedy")}
    more = {"severities": rule.severities, "applied_to": rule_scopes(rule), "silenceable": rule.silenceable}
    return {**texts, **more, "change": cleandoc(rule.change)}

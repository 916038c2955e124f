"""Generator of docs/checks.md, which `trainstack dev rules-page` writes."""

from collections.abc import Iterable, Iterator, Sequence
from inspect import cleandoc
from pathlib import Path
from textwrap import fill

from trainstack.preflight import cluster_checks, file_checks
from trainstack.preflight.all_rules import ALL_RULES, RULES_BY_TOPIC
from trainstack.preflight.rule import Rule

PAGE = Path("docs/checks.md")
_WIDTH = 120
_INTRODUCTION = """\
<!-- Written by `trainstack dev rules-page` from the rules in trainstack/preflight/. -->
# What the checks find

`trainstack check` and every preview apply these rules to an environment's files, without engine or cluster.
An `error` stops the change, a `warning` does not; `unknown` means that the answer depends on another stack or person.
`trainstack explain RULE` prints a section of this page.

The report ends with a verdict for each queued run, whether Kueue would admit it on an idle cluster: `fits`, `fits by
borrowing`, `never fits` or `unknown`. With `--cluster` the verdict is about the present state, and may also be `fits by
preempting` or `waits`: the run is submitted behind the workloads of its priority that wait in the cluster, and the
verdict names what holds it up although quota is available, such as the head of a StrictFIFO queue or a preemption in
progress. Where a topology decides, Kueue's own code answers, if it is built. A finding that explains a verdict is part
of its row.

To accept a finding, silence it with a reason:

```yaml change
trainstack:workloads:
  runs:
    - {name: hello, kind: TrainJob, roles: {Master: {}, Worker: {}}}
trainstack:checks:
  silenced:
    - rule: volume-one-node
      path: workloads.runs[hello]
      reason: The cluster has one node.
```

`path` is the finding's path, or one that encloses it. Only `--json` shows silenced findings. What Kueue or
the API server refuses cannot be silenced.

`trainstack check --cluster` also compares the environment with its cluster, which it only reads; launches are sent as
dry runs. A missing object that the environment declares is a warning: `up` creates it. With `profile: tenant` the check
reads the tenant's namespaces and, if permitted, the StorageClasses; the platform's owner can check the rest.

The YAML examples are changes of the environment that `trainstack init --profile owner --cluster kind` writes.
"""


def render_page() -> str:
    return "\n".join([_INTRODUCTION, _overview(), *map(_topic, RULES_BY_TOPIC)])


def _overview() -> str:
    """Return a table of the topics, with the numbers of their rules."""
    rows = [
        (f"[{topic}](#{topic.lower().replace(' ', '-')})", *_count_errors(rules))
        for topic, rules in RULES_BY_TOPIC.items()
    ]
    return _table(("topic", "errors", "others"), [*rows, ("all", *_count_errors(ALL_RULES))], "|---|---:|---:|")


def _count_errors(rules: Sequence[Rule]) -> tuple[str, str]:
    """Return the number of errors, and that of other rules."""
    count = sum(rule.severity == "error" for rule in rules)
    return str(count), str(len(rules) - count)


def _topic(topic: str) -> str:
    rules = RULES_BY_TOPIC[topic]
    rows = [(f"[`{rule.id}`](#{rule.id})", rule.severity, rule.summary.replace("|", "\\|")) for rule in rules]
    table = _table(("rule", "severity", "finding"), rows, "|---|---|---|")
    return "\n".join([f"## {topic}\n", table, *("\n".join(_section(rule)) for rule in rules)])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], rule: str) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], rule, *lines[1:], ""])


def rule_scopes(rule: Rule) -> list[str]:
    """Return `files`, `cluster` or both; empty for rules about the check itself."""
    ids_by_scope = {"files": {*file_checks.RULES}, "cluster": {*cluster_checks.RULES}}
    return [name for name, scope_ids in ids_by_scope.items() if rule.id in scope_ids]


def rule_properties(rule: Rule) -> str:
    """Return one line: the severities, the scope, and whether the rule can be silenced."""
    scope_notes = {("cluster",): " Only with `--cluster`.", ("files", "cluster"): " Also with `--cluster`."}
    silence_note = "" if rule.silenceable else " Cannot be silenced."
    return f"Severity: {', '.join(rule.severities)}.{scope_notes.get(tuple(rule_scopes(rule)), '')}{silence_note}"


def _section(rule: Rule) -> Iterator[str]:
    yield f"### `{rule.id}`\n"
    yield _paragraph(" ".join(filter(None, [rule.summary, rule.details])))
    yield _paragraph(rule_properties(rule))
    if rule.example:
        yield _paragraph(f"Example: {rule.example}")
    if rule.change:
        yield f"```yaml finding\n{cleandoc(rule.change)}\n```\n"
    yield _paragraph(f"Remedy: {rule.remedy}")


def _paragraph(sentences: str) -> str:
    return fill(sentences, _WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"

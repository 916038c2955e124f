"""docs/checks.md, from the rules: `trainstack dev rules-page` writes it."""

from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from textwrap import fill

from trainstack.preflight import against_cluster, preflight
from trainstack.preflight.registry import BY_ID, EVERY, FORMER
from trainstack.preflight.rule import Rule

PAGE = Path("docs/checks.md")
_WIDTH = 120
_HEAD = """\
<!-- Written by `trainstack dev rules-page` from the rules in trainstack/preflight/. -->
# What the checks find

`trainstack check` and every preview apply these rules to the files of an environment, before the engine or a cluster is
involved. An `error` stops the change, a `warning` does not. `unknown` means that another stack or person has the
answer: a tenant, or a stack without the platform, cannot know the platform's queues and classes. `trainstack explain
RULE` prints a section of this page.

After the findings, the report has a verdict for each queued run, whether Kueue would admit it on an idle cluster with
the declared quota: `fits`, `fits by borrowing`, `never fits` (also an error, with the changes that help), or `unknown`;
with the flavors and what is borrowed. With `--cluster` the verdict is about the cluster as it is now, and may also be
`fits by preempting` (whom) or `waits` (for what); it follows the configuration of the running Kueue, such as resources
that Kueue does not count. The verdict on the files is also in previews and in the comment of a [pull
request](pull-requests.md).

A finding that is known and accepted is silenced, with a reason:

```yaml change
trainstack:storage:
  volumes:
    - {name: training, accessModes: [ReadWriteOnce]}
trainstack:checks:
  silenced:
    - rule: volume-one-node
      path: workloads.runs[digits]
      reason: The local cluster has one node.
```

`path` is the path of the finding, or one that encloses it. A silenced finding stops nothing, and only `--json` shows
it, with the reason. A rule cannot be silenced if Kueue or the API server would refuse the object anyway.

Values are checked before the rules, while the files are loaded: names, labels, annotations, environment variables,
paths, numbers, amounts, tolerations and image references must have the form that the API server or the kubelet accepts
([Environments](environments.md)).

`trainstack check --cluster` also compares the environment with its cluster. The cluster is only read; the launches of
the runs are sent as dry runs, which store nothing. A missing object that the environment itself declares is a warning:
`up` creates it. With `profile: tenant` the check reads nothing outside the tenant's namespaces. What it cannot know is
`unknown`, and the platform's owner finds it out with the same command on the platform's environment.

The YAML examples are changes of the environment `dev`.
"""


def text() -> str:
    """The page."""
    return "\n".join([_HEAD, *("\n".join(_section(rule)) for rule in EVERY)])


def scope(rule: Rule) -> list[str]:
    """What the rule is applied to; empty where the check itself, or a silence, is at fault."""
    ids = {"files": {*preflight.RULES}, "cluster": {*against_cluster.RULES}}
    return [name for name, of_scope in ids.items() if rule.id in of_scope]


def facts(rule: Rule) -> str:
    """Its severities, what it is applied to, whether it can be silenced, and former ids, in one line."""
    applied = f" Applied to: {', '.join(scope(rule))}." if scope(rule) else ""
    former = f" Formerly also: {', '.join(f'`{id_}`' for id_ in rule.formerly)}." if rule.formerly else ""
    silence = "" if rule.silenceable else " Cannot be silenced."
    return f"Severity: {', '.join(rule.severities)}.{applied}{silence}{former}"


def _section(rule: Rule) -> Iterator[str]:
    yield "".join(f'<a id="{former}"></a>\n' for former in _anchors(rule)) + f"## `{rule.id}`\n"
    yield _paragraph(" ".join(filter(None, [rule.summary, rule.details])))
    yield _paragraph(facts(rule))
    if rule.example:
        yield _paragraph(f"Example: {rule.example}")
    if rule.change:
        yield f"```yaml finding\n{cleandoc(rule.change)}\n```\n"
    yield _paragraph(f"Remedy: {rule.remedy}")


def _anchors(rule: Rule) -> list[str]:
    """Former ids that links to the page may have; of several rules with one of them, the first has it."""
    return [former for former in rule.formerly if former not in BY_ID and rule.id == FORMER[former][0]]


def _paragraph(sentences: str) -> str:
    return fill(sentences, _WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"

"""Records of many trials, a few small files of each, read in one stream by a data loader.

The trials' pods and objects are not needed.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainstack.cli.console import fail
from trainstack.cli.frames import END, FUNCTIONS, Frames, asked
from trainstack.cli.loader import Loader
from trainstack.cli.progress import Advance, count
from trainstack.cli.remote import BrokenConnectionError, running
from trainstack.cli.retry import persevering

LAST_LINES = 20
"""Of a log."""
_END_BYTES = 8192
"""At the end of a log, which are searched for the last lines, since lines can be long."""
_LOG_BYTES = 1 << 20
"""At the end of a log, from which metrics are read."""

# Content is base64, which has no NUL, and its frame ends with the program's exit status. Concurrent writes of a running
# trial may or may not be included. Of several attempts, the one that wrote last counts. If $2 is not empty, logs are
# read even if there are metrics.
_READ = f"""{FUNCTIONS}
content() {{ printf "3\\0%s\\0" "$1"; base64; printf "\\0%s\\0" $?; }}
give() {{ if [ -f "$2" ] && ! content "$1" <"$2" && [ -f "$2" ]; then frame unreadable "$2"; fi; }}
newest() {{
  newest=
  for each; do
    if [ -f "$each" ] && {{ [ -z "$newest" ] || [ "$each" -nt "$newest" ]; }}; then newest=$each; fi
  done
}}
# $1: there are no metrics but what the logs have. A resumed trial has several: all of them, the newest last.
logs() {{
  newest "$name"/logs/rank-0.*.log
  if [ -z "$newest" ]; then return; fi
  if [ -z "$1" ]; then tail -c {_END_BYTES} "$newest" | content log; return; fi
  for each in "$name"/logs/rank-0.*.log; do
    if [ "$each" != "$newest" ]; then tail -c {_LOG_BYTES} "$each" | content log; fi
  done
  tail -c {_LOG_BYTES} "$newest" | content log
}}
attempts() {{
  set -- "$1"/attempts/*/
  if [ -d "$1" ]; then attempts=$#; else attempts=0; fi
}}
asked=0
if cd "$1" 2>/dev/null; then here=yes; else here=; fi
while read_name; do
  asked=$((asked + 1))
  if [ -z "$here" ]; then continue; fi
  if [ -f "$name/_SUCCESS" ]; then
    frame finished "$name" 0
    give facts "$name/run.json"
    give metrics "$name/result/metrics.jsonl"
    if [ -n "$2" ] || ! [ -s "$name/result/metrics.jsonl" ]; then logs all; fi
  elif [ -d "$name" ]; then
    attempts "$name"
    frame begun "$name" "$attempts"
    give facts "$name/run.json"
    newest "$name/result/metrics.jsonl" "$name"/attempts/*/output/metrics.jsonl
    give metrics "$newest"
    if [ -n "$2" ] || ! [ -s "$newest" ]; then all=all; else all=; fi
    newest "$name"/attempts/*/failure.json
    give failure "$newest"
    logs "$all"
  fi
done
{END} "$asked"
"""


@dataclass(frozen=True, kw_only=True)
class Record:
    """A trial's files on the volume."""

    finished: bool
    """Whether it has succeeded, so that its files no longer change."""
    attempts: int
    """Number of pods that have started it."""
    facts: Mapping[str, Any]
    """Its run.json; {} if it is missing or incomplete."""
    metrics: str
    """Its published metrics.jsonl, else that of the newest attempt."""
    failure: Mapping[str, Any]
    """The newest failure.json of its attempts; {} without one."""
    last_lines: tuple[str, ...]
    """Of its newest log, unless it is finished."""
    log: str = ""
    """The ends of its attempts' logs, the newest last. With metrics and without `with_logs`: the end of the newest log,
    or nothing for a finished trial."""


@dataclass
class _Parts:
    finished: bool
    attempts: int
    texts: dict[str, str] = field(default_factory=dict)
    logs: list[str] = field(default_factory=list)

    def record(self) -> Record:
        facts = _object(self.texts.get("facts", ""))
        return Record(
            finished=self.finished,
            attempts=int(facts.get("attempts") or 1) if self.finished else self.attempts,
            facts=facts,
            metrics=self.texts.get("metrics", ""),
            failure=_object(self.texts.get("failure", "")),
            last_lines=() if self.finished or not self.logs else last_lines(self.logs[-1]),
            log="\n".join(self.logs),
        )


def last_lines(log: str) -> tuple[str, ...]:
    # Progress bars end their lines with \r.
    lines = [line.rstrip() for line in log.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return tuple([line for line in lines if line][-LAST_LINES:])


def read_records(loader: Loader, folder: str, run_ids: Sequence[str], *, with_logs: bool = False) -> dict[str, Record]:
    """Read the existing records in a folder of the volume, by run id; exits if a file cannot be read.

    `with_logs`: read logs even if there are metrics.
    """
    found: dict[str, Record] = {}
    with count(f"reading the records of {len(run_ids)} trials", len(run_ids)) as advance:

        def attempt() -> None:
            left = [run_id for run_id in run_ids if run_id not in found]
            _read(loader, folder, left, found, advance, with_logs=with_logs)

        persevering(loader, attempt, lambda: len(found))
    return found


def _read(
    loader: Loader,
    folder: str,
    run_ids: Sequence[str],
    found: dict[str, Record],
    advance: Advance,
    *,
    with_logs: bool,
) -> None:
    """Read the remaining records; keep complete ones if the connection breaks. Raises BrokenConnectionError."""
    what = "reading of records"
    logs = "logs" if with_logs else ""
    with running(loader, what, _READ, folder, logs, given=asked(run_ids)) as script:
        frames = Frames(script.output, what)
        run, parts = "", _Parts(finished=False, attempts=0)
        for fields in frames:
            match fields:
                case ["finished" | "begun" as state, name, attempts]:
                    if run:
                        found[run] = parts.record()
                        advance(1)
                    run, parts = name, _Parts(finished=state == "finished", attempts=int(attempts))
                case [kind, content, "0"]:
                    text = base64.b64decode(content).decode(errors="replace")
                    if kind == "log":
                        parts.logs.append(text)
                    else:
                        parts.texts[kind] = text
                case _:
                    fail(
                        f"a file of {folder}/{run} on the volume cannot be read: {fields[0]} {fields[-1]}; make it "
                        "readable for the data loader's user, or check the disk, and run the same command again"
                    )
        if frames.end != [str(len(run_ids))]:
            raise BrokenConnectionError(f"the {what} ended after {frames.end} of {len(run_ids)} run ids")
        if run:
            found[run] = parts.record()
            advance(1)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}

"""The records of many trials, as far as a sweep needs them: of each a few small files, all in one stream.

A loader's pod reads them, so they come also when the trials' pods and objects are gone.
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
"""Of a log's end, in which those lines are looked for: a line may be as long as a program likes."""
_LOG_BYTES = 1 << 20
"""Of the end of each log from which metrics are read."""

# Content is base64, which holds no NUL, and its frame ends with the program's exit status. What a trial that still
# runs writes meanwhile may be in it or not; what it renames is read under the other name, or not. Of several attempts
# the one counts that wrote last. $2, unless it is empty, has logs read although there are metrics.
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
    """What one trial has left on the volume."""

    finished: bool
    """It has succeeded, and its files change no more."""
    attempts: int
    """Pods that have begun it."""
    facts: Mapping[str, Any]
    """Its run.json; {} where it is not there, or not whole yet."""
    metrics: str
    """Its metrics.jsonl as it is: the published one, else the newest of its attempts'."""
    failure: Mapping[str, Any]
    """The newest failure.json of its attempts; {} where none has failed."""
    last_lines: tuple[str, ...]
    """Of its newest log, while it is not finished."""
    log: str = ""
    """The ends of its attempts' logs, the newest last. Of a trial with metrics, where logs were not asked for: nothing
    once it is finished, before that the end of the newest."""


@dataclass
class _Parts:
    """What came of one record."""

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
    """The last lines of a log that are not empty."""
    # Bars of progress end their lines with \r.
    lines = [line.rstrip() for line in log.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return tuple([line for line in lines if line][-LAST_LINES:])


def read_records(loader: Loader, folder: str, run_ids: Sequence[str], *, with_logs: bool = False) -> dict[str, Record]:
    """The records of these runs that are there, by run id.

    Ends the command when the volume cannot be read.

    Args:
        loader: through which.
        folder: the volume's folder that holds the records.
        run_ids: which.
        with_logs: also of those that have metrics.

    """
    found: dict[str, Record] = {}
    with count(f"reading the records of {len(run_ids)} trials", len(run_ids)) as advance:

        def attempt() -> None:
            left = [each for each in run_ids if each not in found]
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
    """Read what is left. What came whole stays when the connection breaks. Raises BrokenConnectionError."""
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
                        f"a file of {folder}/{run} on the volume cannot be read: {fields[0]} {fields[-1]}. Make it "
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

"""The records of many trials, as far as a sweep needs them: of each a few small files, all in one stream.

A loader's pod reads them, so they come also when the trials' pods and objects are gone.
"""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cli.loader import Loader
from cli.progress import Advance, count
from cli.remote import BrokenConnectionError, running
from cli.tries import persevering

LAST_LINES = 20
"""Of a log."""
_LOG_BYTES = 8192
"""Of a log's end, in which those lines are looked for: a line may be as long as a program likes."""

# Parts begin with a line of a mark that nobody else knows, the part's name and what is known of it. What a trial that
# still runs writes meanwhile may be in it or not; what it renames is read under the other name, or not. Of several
# attempts the one counts that wrote last.
_READ = f"""export LC_ALL=C
mark=$2
part() {{ printf '\\n%s %s\\n' "$mark" "$*"; }}
give() {{ if [ -f "$2" ]; then part "$1"; cat "$2"; fi; }}
newest() {{
  newest=
  for each; do
    if [ -f "$each" ] && {{ [ -z "$newest" ] || [ "$each" -nt "$newest" ]; }}; then newest=$each; fi
  done
}}
attempts() {{
  set -- "$1"/attempts/*/
  if [ -d "$1" ]; then attempts=$#; else attempts=0; fi
}}
if cd "$1" 2>/dev/null; then
  while IFS= read -r run; do
    if [ -f "$run/_SUCCESS" ]; then
      part finished "$run" 0
      give facts "$run/run.json"
      give metrics "$run/result/metrics.jsonl"
    elif [ -d "$run" ]; then
      attempts "$run"
      part begun "$run" "$attempts"
      give facts "$run/run.json"
      newest "$run/result/metrics.jsonl" "$run"/attempts/*/output/metrics.jsonl
      give metrics "$newest"
      newest "$run"/attempts/*/failure.json
      give failure "$newest"
      newest "$run"/logs/rank-0.*.log
      if [ -n "$newest" ]; then part log; tail -c {_LOG_BYTES} "$newest"; fi
    fi
  done
fi
part end
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


@dataclass
class _Parts:
    """What came of one record."""

    finished: bool
    attempts: int
    texts: dict[str, str] = field(default_factory=dict)

    def record(self) -> Record:
        facts, log = _object(self.texts.get("facts", "")), self.texts.get("log", "")
        # Bars of progress end their lines with \r.
        lines = [line.rstrip() for line in log.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
        return Record(
            finished=self.finished,
            attempts=int(facts.get("attempts") or 1) if self.finished else self.attempts,
            facts=facts,
            metrics=self.texts.get("metrics", ""),
            failure=_object(self.texts.get("failure", "")),
            last_lines=tuple([line for line in lines if line][-LAST_LINES:]),
        )


def read_records(loader: Loader, folder: str, run_ids: Sequence[str]) -> dict[str, Record]:
    """The records of these runs that are there, by run id.

    Ends the command when the volume cannot be read.

    Args:
        loader: through which.
        folder: the volume's folder that holds the records.
        run_ids: which.

    """
    found: dict[str, Record] = {}
    with count(f"reading the records of {len(run_ids)} trials", len(run_ids)) as advance:

        def attempt() -> None:
            left = [each for each in run_ids if each not in found]
            _read(loader, folder, left, found, advance)

        persevering(loader, attempt, lambda: len(found))
    return found


def _read(loader: Loader, folder: str, run_ids: Sequence[str], found: dict[str, Record], advance: Advance) -> None:
    """Read what is left. What came whole stays when the connection breaks. Raises BrokenConnectionError."""
    mark = secrets.token_hex(16)
    asked = "".join(f"{each}\n" for each in run_ids).encode()
    with running(loader, "reading of records", _READ, folder, mark, given=asked) as script:
        run, parts = "", _Parts(finished=False, attempts=0)
        for words, text in _split(script.output, mark.encode()):
            if words[0] in ("finished", "begun", "end"):
                if run:
                    found[run] = parts.record()
                    advance(1)
                if words[0] == "end":
                    return
                run, parts = words[1], _Parts(finished=words[0] == "finished", attempts=int(words[2]))
            else:
                parts.texts[words[0]] = text
        raise BrokenConnectionError("the volume's side has not said that it is done")


def _split(lines: Iterator[bytes] | Any, mark: bytes) -> Iterator[tuple[list[str], str]]:
    """The parts of a stream: the words after the mark, and the text."""
    words: list[str] | None = None
    text: list[bytes] = []
    for line in lines:
        if not line.startswith(mark + b" "):
            text.append(line)
            continue
        if words is not None:
            yield words, _text(text)
        words, text = line.decode().split()[1:], []
    if words is not None and words[0] == "end":
        yield words, ""


def _text(lines: Sequence[bytes]) -> str:
    """Without the line break that stands before each mark."""
    return b"".join(lines).decode(errors="replace").removesuffix("\n")


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}

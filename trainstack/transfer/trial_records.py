"""The records of a sweep's trials: the small files that a sweep needs of every trial, read in one stream.

A data loader's pod reads them, so the trials' pods and objects are not required.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainstack.reports.record import parse_object
from trainstack.transfer.attempts import run_with_retries
from trainstack.transfer.errors import BrokenConnectionError, TransferError
from trainstack.transfer.frames import END_COMMAND, SHELL_FUNCTIONS, Frames, decode_base64, encode_names
from trainstack.transfer.loader import Loader
from trainstack.transfer.pod_script import run_script

_MOST_ATTEMPTS = 10**6
"""A higher number of attempts in run.json is invalid."""
LAST_LINES = 20
"""The number of a log's last lines in a record."""
_CONTENT_KINDS = ("facts", "metrics", "failure", "log")
_ATTEMPT_NUMBER = re.compile(r"[0-9]{1,6}")
_LOG_END_BYTES = 8192
"""The end of a log that is searched for its last lines, which may be of any length."""
_LOG_BYTES = 1 << 20
"""The end of each log from which metrics are read."""

# Content is base64, which contains no NUL; its frame ends with the program's exit status. What a running trial writes
# meanwhile may be missing; a file that it renames is read under either name or omitted. Of several attempts, the one
# that wrote last counts. A non-empty $2 requests logs even if there are metrics.
_READ = f"""{SHELL_FUNCTIONS}
content() {{ printf "3\\0%s\\0" "$1"; base64; printf "\\0%s\\0" $?; }}
give() {{ if [ -f "$2" ] && ! content "$1" <"$2" && [ -f "$2" ]; then frame unreadable "$2"; fi; }}
newest() {{
  newest=
  for file; do
    if [ -f "$file" ] && {{ [ -z "$newest" ] || [ "$file" -nt "$newest" ]; }}; then newest=$file; fi
  done
}}
# A non-empty $1 requests all logs, the newest last: a resumed trial has several. Otherwise the end of the newest one.
logs() {{
  newest "$name"/logs/rank-0.*.log
  if [ -z "$newest" ]; then return; fi
  if [ -z "$1" ]; then tail -c {_LOG_END_BYTES} "$newest" | content log; return; fi
  for file in "$name"/logs/rank-0.*.log; do
    if [ "$file" != "$newest" ]; then tail -c {_LOG_BYTES} "$file" | content log; fi
  done
  tail -c {_LOG_BYTES} "$newest" | content log
}}
attempts() {{
  set -- "$1"/attempts/*/
  if [ -d "$1" ]; then attempts=$#; else attempts=0; fi
}}
count=0
if cd "$1" 2>/dev/null; then exists=yes; else exists=; fi
while read_name; do
  count=$((count + 1))
  if [ -z "$exists" ]; then continue; fi
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
{END_COMMAND} "$count"
"""


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """The files of one trial on the volume."""

    finished: bool
    """Whether the trial succeeded; its files no longer change."""
    attempts: int
    """The number of pods that started the trial."""
    facts: Mapping[str, Any]
    """Its run.json; {} if the file is missing or incomplete."""
    metrics: str
    """Its metrics.jsonl: the published file, or that of the newest attempt."""
    failure: Mapping[str, Any]
    """The newest failure.json of its attempts; {} if no attempt failed."""
    last_lines: tuple[str, ...]
    """The last lines of the newest log of an unfinished trial."""
    log: str = ""
    """The ends of its attempts' logs, the newest last.

    If the trial has metrics and logs were not requested: the end of the newest log, or "" once it is finished."""


def _build_record(state: str, attempts: int, texts: Mapping[str, Sequence[str]]) -> TrialRecord:
    finished, logs = state == "finished", texts.get("log", ())
    facts = _json_object(texts.get("facts", ()))
    return TrialRecord(
        finished=finished,
        attempts=_attempt_count(facts) if finished else attempts,
        facts=facts,
        metrics="".join(texts.get("metrics", ())),
        failure=_json_object(texts.get("failure", ())),
        last_lines=() if finished or not logs else last_lines(logs[-1]),
        log="\n".join(logs),
    )


def _attempt_count(facts: Mapping[str, Any]) -> int:
    """Return the number of attempts in run.json; 1 if it is missing or invalid."""
    attempts = facts.get("attempts")
    return attempts if type(attempts) is int and 1 <= attempts <= _MOST_ATTEMPTS else 1


def last_lines(log: str) -> tuple[str, ...]:
    """Return the last lines of a log that are not empty."""
    # Progress bars end their lines with \r.
    lines = [line.rstrip() for line in log.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return tuple([line for line in lines if line][-LAST_LINES:])


def read_records(
    loader: Loader, folder: str, run_ids: Sequence[str], *, with_logs: bool = False
) -> dict[str, TrialRecord]:
    """Read the runs' existing records in a folder of the volume; return them by run id.

    `with_logs` requests the logs of trials that have metrics too. Raises TransferError.
    """
    records: dict[str, TrialRecord] = {}
    operation, logs = "reading of records", "logs" if with_logs else ""

    def attempt() -> None:
        # A new attempt requests only the records that earlier ones have not completed.
        missing = [run_id for run_id in run_ids if run_id not in records]
        with run_script(loader, operation, _READ, folder, logs, stdin=encode_names(missing)) as script:
            frames = Frames(script.stdout, operation)
            run_id = state = ""
            attempts, texts = 0, defaultdict[str, list[str]](list)

            # A record is complete when the next one begins or the response ends; a truncated one is read again.
            def complete() -> None:
                if run_id:
                    records[run_id] = _build_record(state, attempts, texts)
                    advance(1)

            for frame in frames:
                match frame:
                    case ["finished" | "begun", name, number] if name in missing and _ATTEMPT_NUMBER.fullmatch(number):
                        complete()
                        state, run_id = frame[:2]
                        attempts, texts = int(number), defaultdict(list)
                    case [kind, content, "0"] if run_id and kind in _CONTENT_KINDS:
                        texts[kind].append(decode_base64(content, operation).decode(errors="replace"))
                    case [kind, *_] if not run_id or kind not in (*_CONTENT_KINDS, "unreadable"):
                        raise BrokenConnectionError(f"the {operation} has {kind[:40]!r}, which was not requested")
                    case _:
                        raise TransferError(
                            f"a file of {folder}/{run_id} on the volume cannot be read: {frame[0]} {frame[-1]}. Make "
                            "it readable for the data loader's user, or check the disk, and run the same command again"
                        )
            if frames.end != [str(len(missing))]:
                raise BrokenConnectionError(f"the {operation} ended after {frames.end} of {len(missing)} run ids")
            complete()

    with loader.progress.count(f"reading the records of {len(run_ids)} trials", len(run_ids)) as advance:
        run_with_retries(loader, attempt, lambda: len(records))
    return records


def _json_object(texts: Sequence[str]) -> dict[str, Any]:
    try:
        return parse_object("".join(texts))
    except ValueError:
        return {}

"""The processor time that the running local cluster uses, by program; idle unless something runs in it.

    .venv/bin/python -m bench.idle          # a table
    .venv/bin/python -m bench.idle --json   # for programs

The total is that of the cluster's cgroup, so programs that end meanwhile are part of it.
"""

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from bench.results import show
from trainstack.dev.cluster import cgroups
from trainstack.dev.cluster.layout import Layout

_ROOT = Path(__file__).parent.parent
_TICKS = os.sysconf("SC_CLK_TCK")


def total(name: str) -> float:
    """Seconds that a cluster's cgroup has used."""
    for hierarchy in cgroups.hierarchies():
        folder = hierarchy.root / name
        if hierarchy.version == 2 and (folder / "cpu.stat").is_file():
            return int((folder / "cpu.stat").read_text().split()[1]) / 1e6
        if (folder / "cpuacct.usage").is_file():
            return int((folder / "cpuacct.usage").read_text()) / 1e9
    raise SystemExit(f"no cgroup hierarchy counts the processor time of {name}; start the cluster first")


def by_program(name: str) -> dict[str, float]:
    """Seconds that the running processes have used; processes of one program together."""
    found: dict[str, float] = {}
    for pid in cgroups.members(name, cgroups.hierarchies()):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        program = words[words.index("-m") + 1].rpartition(".")[2] if "-m" in words else Path(words[0]).name
        found[program] = found.get(program, 0) + (int(fields[11]) + int(fields[12])) / _TICKS
    return found


def measure(state: Path, seconds: float) -> dict[str, float]:
    """Cores that each program used, and all together."""
    name = Layout.of(state).cgroup
    began, before, spent = time.monotonic(), by_program(name), total(name)
    time.sleep(seconds)
    after, used, took = by_program(name), total(name) - spent, time.monotonic() - began
    cores = {program: (after[program] - before.get(program, 0)) / took for program in after}
    return {**dict(sorted(cores.items(), key=lambda item: -item[1])), "total": used / took}


def main(
    *,
    state: Annotated[Path, typer.Option(help="The cluster's folder.")] = _ROOT / ".trainstack" / "cluster",
    seconds: Annotated[float, typer.Option(help="How long it is watched.")] = 120,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the processor time of the local cluster."""
    result = {program: round(cores, 4) for program, cores in measure(state, seconds).items()}
    show(result, ((program, f"{cores:.3f} cores", ()) for program, cores in result.items()), as_json=as_json)


if __name__ == "__main__":
    typer.run(main)

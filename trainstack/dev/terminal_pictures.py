"""The pictures in docs/terminal of what real commands print, and a chart that `forecast` draws, written by
`trainstack dev terminal-pictures`.

Only commands that need no cluster are drawn, and none whose output has a time, so that the same checkout always makes
the same files.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from trainstack.files.project import edit_project, write_output
from trainstack.files.temporary import temporary_folder
from trainstack.onboarding.new_project.files import Installation, build_new_files
from trainstack.onboarding.new_project.origin import Origin
from trainstack.onboarding.new_project.request import ProjectRequest
from trainstack.toolchain.places import CHECKOUT

FOLDER = Path("docs/terminal")
CHART_FILE = Path("docs/forecast.png")
_FONT_OF_ANOTHER_HOST = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)

TENANT = ProjectRequest(name="vision", profile="tenant", cluster="other", namespace="vision", queue="vision")
OWNER = ProjectRequest(name="lab", profile="owner", cluster="kind")
LARGE = """\
config:
  trainstack:environment: {namespaces: [{name: vision}]}
  trainstack:queues:
    flavors: [{name: a100}]
    priorityClasses: [{name: high, value: 100}, {name: low, value: -100}]
    clusterQueues:
      - name: vision
        resourceGroups:
          - coveredResources: [cpu, memory, nvidia.com/gpu]
            flavors:
              - name: a100
                resources:
                  - {name: cpu, nominalQuota: 64}
                  - {name: memory, nominalQuota: 512Gi}
                  - {name: nvidia.com/gpu, nominalQuota: 8}
    localQueues: [{name: vision, namespace: vision, clusterQueue: vision}]
  trainstack:workloads:
    runs:
      - {name: baseline, from: train, namespace: vision, queue: vision, priority: high}
      - name: large
        from: train
        namespace: vision
        queue: vision
        resources: {requests: &eight {nvidia.com/gpu: 8}, limits: *eight}
      - {name: ablation, from: train, namespace: vision, queue: vision, priority: high, expectedDurationSeconds: 7200}
      - name: oversized
        from: train
        namespace: vision
        queue: vision
        priority: low
        resources: {requests: &twelve {nvidia.com/gpu: 12}, limits: *twelve}
"""
MISSPELT = """\
kind: Job
image: {name: "python:3.13-slim"}
command: [python3, train.py]
record: {volume: training}
volumes:
  - {volume: training, mountPath: /mnt/training}
  - {volume: trainng, mountPath: /mnt/data}
resources:
  requests: {cpu: 1, memory: 2Gi}
"""
WORKLOAD = """\
kind: Job
managed: false
image: {name: "registry.example.org/vision/train:1"}
command: [python3, train.py]
resources:
  requests: {cpu: 8, memory: 64Gi, nvidia.com/gpu: 4}
  limits: {memory: 64Gi, nvidia.com/gpu: 4}
expectedDurationSeconds: 14400
"""
"""Four runs on a queue of eight GPUs."""


@dataclass(frozen=True)
class Picture:
    """A command, and the project in which it is run."""

    command: str
    columns: int
    project: ProjectRequest | None = None
    """The project as `trainstack init` creates it."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files of the project; not drawn."""


_LAB = {"Pulumi.lab.yaml": LARGE, "workloads/train/workload.yaml": WORKLOAD}

PICTURES: Mapping[str, Picture] = {
    "help": Picture("trainstack --help", 80),
    "misspelt": Picture("trainstack check -s vision", 80, TENANT, {"workloads/hello/workload.yaml": MISSPELT}),
    "check": Picture("trainstack check -s lab", 80, OWNER, _LAB),
    "forecast": Picture("trainstack forecast -s lab", 80, OWNER, _LAB),
}


_GPUS = 'workloads.runs[oversized].resources.%s["nvidia.com/gpu"]=8'
CHART = Picture(
    f"trainstack forecast -s lab --set '{_GPUS % 'requests'}' --set '{_GPUS % 'limits'}' --png {CHART_FILE.name}",
    80,
    OWNER,
    _LAB,
)
"""The chart of the change that `trainstack check` proposes for the run that never fits."""


def write_pictures(root: Path) -> list[Path]:
    """Write all pictures of the checkout, and return their paths."""
    files = {FOLDER / f"{name}.svg": draw_svg(name, picture) for name, picture in PICTURES.items()}
    with edit_project(root) as edit:
        edit.write({str(file): text for file, text in files.items()})
    write_output(root / CHART_FILE, draw_chart())
    return [*files, CHART_FILE]


def draw_chart() -> bytes:
    with _project_of(CHART) as root:
        _run_in_terminal(CHART.command, root, CHART.columns)
        return (root / CHART_FILE.name).read_bytes()


@contextmanager
def _project_of(picture: Picture) -> Iterator[Path]:
    """Create the project of a picture in a temporary folder."""
    with temporary_folder() as root:
        if picture.project:
            with edit_project(root) as edit:
                edit.write(build_new_files(picture.project, Installation(Origin(), ""), virtualenv=False))
        for path, text in picture.files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        yield root


def draw_svg(name: str, picture: Picture) -> str:
    with _project_of(picture) as root:
        output = _run_in_terminal(picture.command, root, picture.columns)
    console = Console(record=True, width=picture.columns, file=StringIO(), force_terminal=True, highlight=False)
    console.print(Text.assemble(("$ ", "green"), (picture.command, "bold")))
    console.print(Text.from_ansi(output.rstrip()))
    # The margin below the last line, which the frame would otherwise touch.
    console.print()
    drawing = _FONT_OF_ANOTHER_HOST.sub("", console.export_svg(title="", unique_id=f"terminal-{name}"))
    return "".join(f"{line.rstrip()}\n" for line in drawing.splitlines())


def _run_in_terminal(command: str, root: Path, columns: int) -> str:
    """Run a command of this checkout as in a terminal, and return its output with its colors."""
    program, *words = shlex.split(command)
    inherited_variables = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    terminal = {"TERM": "xterm-256color", "FORCE_COLOR": "1", "COLUMNS": str(columns), "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        [str(Path(sys.executable).with_name(program)), *words],
        cwd=root,
        env={**inherited_variables, **terminal, "PYTHONPATH": str(CHECKOUT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    ).stdout

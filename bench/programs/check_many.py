"""Check 1,000 runs and 100 cluster queues, and print the seconds of one step, without the start of Python.

python -m bench.programs.check_many read|check
"""

import sys
import tempfile
from pathlib import Path

import yaml

from bench.environments import as_config, environment
from bench.programs.clock import Clock
from trainstack.preflight.file_checks import examine
from trainstack.settings.loading.load import load_with_places
from trainstack.stack_objects.stack_objects import StackObjects

RUNS, QUEUES = 1000, 100
_ROOT = Path(__file__).parents[2]


def main(step: str) -> None:
    with tempfile.TemporaryDirectory(prefix="trainstack-bench-") as name:
        root = Path(name)
        (root / "Pulumi.yaml").write_text("name: bench\nruntime: python\n")
        (root / "defaults.yaml").write_text((_ROOT / "defaults.yaml").read_text())
        config = as_config(environment(teams=QUEUES, queues=QUEUES, runs=RUNS, oversized=True))
        (root / "Pulumi.many.yaml").write_text(yaml.safe_dump(config))
        reading = Clock()
        loaded = load_with_places(root, "many")
        if step == "read":
            reading.show()
            return
        checking = Clock()
        checked = examine(StackObjects(loaded.settings), root, loaded.places)
        seconds = checking.seconds()
    never = sum(verdict.outcome == "never fits" for verdict in checked.verdicts)
    if (len(checked.verdicts), never) != (RUNS, RUNS // 10):
        raise SystemExit(f"{never} of {len(checked.verdicts)} runs never fit; expected a tenth of {RUNS}")
    checking.show(seconds)


if __name__ == "__main__":
    main(sys.argv[1])

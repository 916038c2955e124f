"""Trains the digits for real, as three ranks on this machine, and prints what came of it as one JSON object.

    python3 digits_scenarios.py PROGRAM DATA SCRATCH

It runs inside the base image (test_digits_image.py reads the object), needs torch there and nothing of this repository
but the program: PROGRAM is the folder with train.py and evaluate.py, DATA one with IDX files.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

RANKS = 3
ARGUMENTS = ["--backend=gloo", "--no-cuda", "--epochs=12", "--batch-size=32", "--lr=0.05", "--momentum=0.9", "--seed=1"]
DEADLINE_SECONDS = 240
Result = dict[str, object]


class Scenarios:
    """Runs of the program with this data, below this scratch folder."""

    def __init__(self, program: Path, data: Path, scratch: Path) -> None:
        """Nothing is started yet."""
        self.program, self.data, self.scratch = program, data, scratch

    def train(self, name: str, ranks: int, *more: str, stop_at: str = "", stop_ranks: int = 0) -> Result:
        """One run of all ranks, to its end: exit codes, output by rank, metrics and written files.

        When rank 0 prints a line with `stop_at`, the last `stop_ranks` ranks get SIGTERM. Ranks other than 0 get
        folders that do not exist, as workers without the volume do.
        """
        output = self.scratch / name
        began = time.monotonic()
        port = _free_port()
        processes = [self._start(rank, ranks, port, output, more) for rank in range(ranks)]
        try:
            lines = []
            stdout = processes[0].stdout
            assert stdout is not None
            for line in stdout:
                lines.append(line)
                if stop_at and stop_at in line:
                    for process in processes[ranks - stop_ranks :]:
                        process.send_signal(signal.SIGTERM)
            left = DEADLINE_SECONDS - (time.monotonic() - began)
            others = [process.communicate(timeout=left)[0] for process in processes[1:]]
            codes = [process.wait(timeout=left) for process in processes]
        finally:
            for process in processes:
                process.kill()
        metrics = output / "metrics.jsonl"
        return {
            "codes": codes,
            "logs": ["".join(lines), *others],
            "metrics": [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else [],
            "files": sorted(path.name for path in output.iterdir()) if output.exists() else [],
        }

    def evaluate(self, name: str) -> Result:
        """Return the output of evaluate.py for the model of a run."""
        model = self.scratch / name / "model.pt"
        command = [sys.executable, str(self.program / "evaluate.py"), f"--model={model}", f"--data={self.data}"]
        result: Result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        return result

    def _start(self, rank: int, ranks: int, port: int, output: Path, more: tuple[str, ...]) -> subprocess.Popen[str]:
        ours = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        absent = self.scratch / "no-volume-here"
        folders = [f"--data={absent if rank else self.data}", f"--output={absent if rank else output}"]
        return subprocess.Popen(
            [sys.executable, str(self.program / "train.py"), *ARGUMENTS, *folders, *more],
            env={**os.environ, **ours},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main() -> None:
    """Run all scenarios in sequence."""
    program, data, scratch = (Path(argument) for argument in sys.argv[1:4])
    runs = Scenarios(program, data, scratch)
    checkpoint = f"--checkpoint={scratch / 'checkpoints'}"
    stopped = runs.train("stopped", RANKS, checkpoint, "--log-interval=1", stop_at="epoch 4/12 step 2/", stop_ranks=1)
    short = "--epochs=3"
    print(
        json.dumps(
            {
                "whole": runs.train("whole", RANKS, "--save-model", f"--dir={scratch / 'summaries'}"),
                "evaluated": runs.evaluate("whole"),
                "summaries": [path.name for path in (scratch / "summaries").iterdir()],
                "stopped": stopped,
                "resumed": runs.train("resumed", RANKS, checkpoint),
                "finished": runs.train("finished", RANKS, checkpoint),
                "other_seed": runs.train("other", RANKS, checkpoint, "--seed=2"),
                "alone": runs.train("alone", 1, short),
                "again": runs.train("again", 1, short),
                "no_data": runs.train("empty", 2, f"--data={scratch / 'nothing'}"),
                "no_gpu": runs.train("nccl", 1, "--backend=nccl"),
            }
        )
    )


if __name__ == "__main__":
    main()

"""Logs, records and runs for tests."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainstack.reports.run_figures import Definition, RunFigures
from trainstack.runs.logs.training_log import Epoch, TrainingLog


def make_log(epochs: int = 2, steps: int = 14, world: int = 1) -> str:
    """Return a log of workloads/digits: a progress line at step 10 and one at the last step."""
    lines = [f"world size {world} rank 0 backend gloo device cpu", "images train 1259 validation 179 test 359"]
    for epoch in range(1, epochs + 1):
        lines += [f"epoch {epoch}/{epochs} step {step}/{steps} loss 0.5000" for step in sorted({min(10, steps), steps})]
        summary = f"train_loss 0.5000 val_loss 0.{4 - epoch}000 val_accuracy 0.9{epoch}00 seconds 0.2{epoch}00"
        lines.append(f"epoch {epoch}/{epochs} done {summary}")
    return "\n".join([*lines, "test loss 0.0479 accuracy 0.9916", ""])


def make_classic(epochs: int = 2, lines: int = 3, batch: int = 64) -> str:
    """Return a log of PyTorch's MNIST example: a progress line every tenth step, a test after each epoch."""
    texts = []
    for epoch in range(1, epochs + 1):
        texts += [f"Train Epoch: {epoch} [{n * 10 * batch}/60000 ({n}%)]\tloss={2 / epoch:.4f}" for n in range(lines)]
        texts += ["", f"Test set: Average loss: 0.{3 - epoch}, Accuracy: {95 + epoch}/100 ({95 + epoch}%)", ""]
    return "\n".join(texts)


def make_stamped(text: str, seconds: float = 1.0) -> str:
    """Return the same log with the timestamps of the API server, a line every so many seconds."""
    lines = text.splitlines()
    times = [f"2026-11-21T12:{int(i * seconds) // 60:02}:{i * seconds % 60:012.9f}Z" for i in range(len(lines))]
    return "".join(f"{time} {line}\n" for time, line in zip(times, lines, strict=True))


def make_record(folder: Path, logs: dict[str, str], metrics: Sequence[object] | None = None, **changes: Any) -> Path:
    """Create a fetched record; the keys of `logs` follow `rank-` in their file names."""
    (folder / "logs").mkdir(parents=True)
    for name, text in logs.items():
        (folder / "logs" / f"rank-{name}.log").write_text(text)
    definition = {"workload": "digits", "image": "digits:1", "command": ["train"], "args": ["--epochs=2"], "seed": 1}
    facts = {"state": "succeeded", "definition": definition | {"data": "0465864d278d"}, **changes}
    (folder / "run.json").write_text(json.dumps(facts))
    if metrics is not None:
        (folder / "result").mkdir()
        (folder / "result" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in metrics))
    return folder


def make_run(
    name: str = "digits", world: int = 1, steps: int = 48, seconds: float | None = 1.0, **changes: Any
) -> RunFigures:
    """Return a recorded run of two epochs; every replica has so many steps in each."""
    epochs = {number: Epoch(steps=steps, seconds=seconds, loss=0.3, accuracy=0.9) for number in (1, 2)}
    values: dict[str, Any] = {
        "run_id": f"{name}-0123456789",
        "workload": name,
        "source": "record",
        "finished": True,
        "world_size": world,
        "logs": {rank: TrainingLog(epochs=epochs) for rank in range(world)},
        "epochs": epochs,
        "test_loss": 0.05,
        "test_accuracy": 0.99,
        "definition": Definition(image="digits:1", args=("--epochs=2",), seed=1, data="0465864d278d"),
    }
    return RunFigures(**(values | changes))

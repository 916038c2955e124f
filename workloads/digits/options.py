"""The training program's arguments: those of the reference programs, and where data, output and checkpoints lie."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Options:
    """The parsed arguments; `parse` holds their defaults."""

    backend: str
    no_cuda: bool
    epochs: int
    batch_size: int
    test_batch_size: int
    lr: float
    momentum: float
    seed: int
    log_interval: int
    save_model: bool
    dir: Path | None
    data: Path
    output: Path
    checkpoint: Path | None


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Parses a command line (default: the process's own). A wrong one ends the process with code 2."""
    parser = argparse.ArgumentParser(
        prog="train.py",
        description="Train a small convolutional net on IDX images (MNIST's format), alone or as one rank of several.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    backends = ("gloo", "nccl", "mpi")
    add("--backend", choices=backends, default="gloo", help="how ranks exchange gradients; nccl needs CUDA, mpi MPI")
    add("--no-cuda", action="store_true", help="stay on the CPU where there is a GPU")
    add("--epochs", type=_positive, default=1, help="times to go through the training images")
    add("--batch-size", type=_positive, default=64, help="images per step and rank")
    add("--test-batch-size", type=_positive, default=1000, help="images per step of an evaluation")
    add("--lr", type=float, default=0.01, help="learning rate of SGD")
    add("--momentum", type=float, default=0.5, help="momentum of SGD, 0 to 1")
    add("--seed", type=int, default=1, help="decides split, weights and order")
    add("--log-interval", type=_positive, default=10, help="steps between two progress lines")
    add("--save-model", action="store_true", help="keep the trained model as model.pt in --output")
    add("--dir", type=Path, help="folder for TensorBoard summaries; none are written without it")
    add("--data", type=Path, default=Path("data"), help="folder with the IDX files; only rank 0 needs it")
    add("--output", type=Path, default=Path("output"), help="folder for metrics.jsonl and model.pt; rank 0 writes")
    add("--checkpoint", type=Path, help="folder to save to and resume from; without it a stopped run begins again")
    return Options(**vars(parser.parse_args(arguments)))


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value

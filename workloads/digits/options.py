"""The arguments of the training program: those of PyTorch's MNIST example, and the folders."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Options:
    """The parsed arguments. `parse` has the defaults."""

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
    """Parse a command line; None: that of this process. Exits with code 2 if it is invalid."""
    parser = argparse.ArgumentParser(
        prog="train.py",
        description="Train a small convolutional network on IDX images (MNIST's format), with one rank or several.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    backends = ("gloo", "nccl", "mpi")
    add("--backend", choices=backends, default="gloo", help="communication between ranks; nccl requires CUDA, mpi MPI")
    add("--no-cuda", action="store_true", help="do not use a GPU")
    add("--epochs", type=_positive, default=1, help="passes over the training images")
    add("--batch-size", type=_positive, default=64, help="images per step of each rank")
    add("--test-batch-size", type=_positive, default=1000, help="images per step of an evaluation")
    add("--lr", type=float, default=0.01, help="learning rate of SGD")
    add("--momentum", type=float, default=0.5, help="momentum of SGD, 0 to 1")
    add("--seed", type=int, default=1, help="determines the split, the initial weights and the order")
    add("--log-interval", type=_positive, default=10, help="steps between progress lines")
    add("--save-model", action="store_true", help="write the trained model to model.pt in --output")
    add("--dir", type=Path, help="folder for TensorBoard summaries; without it, none are written")
    add("--data", type=Path, default=Path("data"), help="folder with the IDX files; only rank 0 reads it")
    add("--output", type=Path, default=Path("output"), help="folder for metrics.jsonl and model.pt, from rank 0")
    add("--checkpoint", type=Path, help="folder for checkpoints; without it, a stopped run restarts")
    return Options(**vars(parser.parse_args(arguments)))


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value

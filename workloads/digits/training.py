"""The training of one rank: epochs, each followed by a checkpoint, and the test at the end."""

import os
import sys
import time
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from . import checkpoint, data, metrics
from .checkpoint import Progress
from .errors import ProgramError
from .model import build_model, from_bytes, model_bytes, to_bytes
from .options import Options
from .splits import epoch_batches, shard
from .stopping import STOPPED, StopSignal
from .summaries import SummaryWriter
from .world import World, join

MODEL_FILE = "model.pt"


def run(options: Options, stop: StopSignal) -> int:
    """Train, and return the exit code: 0, or 143 if SIGTERM stopped the training. Raises ProgramError."""
    # torch counts the CPUs of the node, not those of the container; and sums depend on the number of threads.
    torch.set_num_threads(1)
    world = join(options.backend, os.environ, no_cuda=options.no_cuda)
    _report(f"world size {world.size} rank {world.rank} backend {world.backend} device {world.device}")
    try:
        trainer = Trainer(options, world)
        stop.defer()
        return trainer.run(stop)
    finally:
        world.leave()


class Trainer:
    """The part of one rank in a run."""

    def __init__(self, options: Options, world: World) -> None:
        """Receive data and checkpoint from rank 0, and build the network. Raises ProgramError."""
        self.options, self.world = options, world
        sent = world.share(lambda: to_bytes(data.to_dict(data.load(options.data))))
        self.data = data.from_dict(from_bytes(sent, "the data set from rank 0"))
        self.split = self.data.split(options.seed)
        test_indices = self.data.test_part(options.seed)[1]
        if not (self.split.train and self.split.validation and test_indices):
            raise ProgramError(f"{options.data}: too few images to train, validate and test; at least 10 are required")
        torch.manual_seed(options.seed)
        self.model: nn.Module = build_model(*self.data.image_size, self.data.classes).to(world.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=options.lr, momentum=options.momentum)
        self.progress = self._resume()
        self.summaries = SummaryWriter(options.dir) if options.dir and world.first else None
        _report(
            f"images train {len(self.split.train)} validation {len(self.split.validation)} test {len(test_indices)}"
        )

    def run(self, stop: StopSignal) -> int:
        """Train the remaining epochs and test. Return the exit code."""
        parallel = self._parallel()
        while self.progress.epoch < self.options.epochs:
            if not self._epoch(parallel, stop):
                self._save()
                _report(f"stopped by SIGTERM in epoch {self.progress.epoch + 1} after step {self.progress.step}")
                return STOPPED
        self._finish()
        return 0

    def _parallel(self) -> nn.Module:
        """Return the network with averaged gradients, after a backward pass whose gradients are discarded.

        DistributedDataParallel rebuilds its buckets after the first backward pass, which changes the order of the sums.
        Without this pass, a resumed run would differ from an uninterrupted one in the last bits, and visibly some
        epochs later.
        """
        parallel = self.world.wrap(self.model)
        height, width = self.data.image_size
        parallel(torch.zeros(1, 1, height, width, device=self.world.device)).sum().backward()
        self.optimizer.zero_grad()
        return parallel

    def _epoch(self, parallel: nn.Module, stop: StopSignal) -> bool:
        """Train the remaining steps of the epoch. Return False if a signal stopped it."""
        options, world, progress = self.options, self.world, self.progress
        batches = epoch_batches(
            self.split.train,
            seed=options.seed,
            epoch=progress.epoch,
            rank=world.rank,
            world=world.size,
            batch_size=options.batch_size,
        )
        loss_sum = progress.loss_sums[world.rank] if progress.loss_sums else 0.0
        started_at = time.monotonic() - progress.seconds
        for step, batch in enumerate(batches[progress.step :], start=progress.step + 1):
            loss = self._step(parallel, batch)
            loss_sum += loss * len(batch)
            if step % options.log_interval == 0 or step == len(batches):
                _report(f"epoch {progress.epoch + 1}/{options.epochs} step {step}/{len(batches)} loss {loss:.4f}")
                self._summary("train_loss", loss, progress.epoch * len(batches) + step)
            # All ranks stop after the same step: a rank that continued would wait for the gradients of the others.
            if world.any(flag=stop.has_arrived()):
                progress.step, progress.loss_sums = step, world.gather(loss_sum)
                progress.seconds = time.monotonic() - started_at
                return False
        train_loss, images = world.sum(loss_sum, sum(len(batch) for batch in batches))
        val_loss, val_accuracy = self._evaluate(self.data.train, list(self.split.validation))
        line: metrics.Metrics = {
            "epoch": progress.epoch + 1,
            "step": (progress.epoch + 1) * len(batches),
            "train_loss": train_loss / images,
            "val_loss": val_loss,
            "val_accuracy": val_accuracy,
            "seconds": round(time.monotonic() - started_at, 3),
        }
        _report(
            f"epoch {progress.epoch + 1}/{options.epochs} done "
            + " ".join(f"{key} {line[key]:.4f}" for key in ("train_loss", "val_loss", "val_accuracy", "seconds"))
        )
        for key in ("val_loss", "val_accuracy"):
            self._summary(key, line[key], int(line["step"]))
        progress.epoch, progress.step, progress.loss_sums, progress.seconds = progress.epoch + 1, 0, [], 0.0
        progress.history.append(line)
        self._save()
        return True

    def _step(self, parallel: nn.Module, batch: list[int]) -> float:
        images, labels = (tensor.to(self.world.device) for tensor in self.data.train.take(batch))
        self.optimizer.zero_grad()
        loss = cross_entropy(parallel(images), labels)
        loss.backward()
        self.optimizer.step()
        return float(loss.item())

    def _evaluate(self, part: data.Part, indices: list[int]) -> tuple[float, float]:
        """Return mean loss and accuracy; each rank evaluates a share of the images."""
        rank_indices = shard(indices, self.world.rank, self.world.size)
        sums = evaluate_sums(self.model, part, rank_indices, self.options.test_batch_size, self.world.device)
        loss, correct = self.world.sum(*sums)
        return loss / len(indices), correct / len(indices)

    def _finish(self) -> None:
        loss, accuracy = self._evaluate(*self.data.test_part(self.options.seed))
        step = int(self.progress.history[-1]["step"])
        line: metrics.Metrics = {"epoch": self.progress.epoch, "step": step}
        self.progress.history.append({**line, "test_loss": loss, "test_accuracy": accuracy})
        self._summary("test_accuracy", accuracy, step)

        def write() -> bytes:
            options = self.options
            if options.save_model:
                (height, width), classes = self.data.image_size, self.data.classes
                content = model_bytes(self.model, height=height, width=width, classes=classes, seed=options.seed)
                metrics.write_atomically(options.output / MODEL_FILE, content)
            metrics.write(options.output, self.progress.history)
            return b""

        self.world.share(write)
        _report(f"test loss {loss:.4f} accuracy {accuracy:.4f}")

    def _save(self) -> None:
        """Write metrics and checkpoint on rank 0; all ranks wait until they are written."""

        def write() -> bytes:
            metrics.write(self.options.output, self.progress.history)
            if self.options.checkpoint:
                self.progress.model = self.model.state_dict()
                self.progress.momentum = self.optimizer.state_dict()["state"]
                checkpoint.save(self.options.checkpoint, self.progress)
            return b""

        self.world.share(write)

    def _resume(self) -> Progress:
        options = self.options
        identity: dict[str, Any] = {
            "data": self.data.sha256,
            "world_size": self.world.size,
            "seed": options.seed,
            "batch_size": options.batch_size,
            "lr": options.lr,
            "momentum": options.momentum,
        }
        folder = options.checkpoint
        if folder is None:
            return Progress(identity=identity)
        content = self.world.share(lambda: checkpoint.read(folder))
        progress = checkpoint.restore(content, folder, identity)
        if content:
            self.model.load_state_dict(progress.model)
            self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": progress.momentum})
            _report(f"resumed after epoch {progress.epoch} step {progress.step}")
        return progress

    def _summary(self, tag: str, value: float, step: int) -> None:
        if self.summaries:
            self.summaries.scalar(tag, value, step)


def evaluate_sums(
    model: nn.Module, part: data.Part, indices: list[int], batch_size: int, device: torch.device
) -> tuple[float, float]:
    """Return the sum of the losses and the number of correct predictions for the images."""
    loss, correct = 0.0, 0.0
    model.eval()
    with torch.no_grad():
        for start in range(0, len(indices), batch_size):
            images, labels = (tensor.to(device) for tensor in part.take(indices[start : start + batch_size]))
            output = model(images)
            loss += float(cross_entropy(output, labels, reduction="sum").item())
            correct += float((output.argmax(1) == labels).sum().item())
    model.train()
    return loss, correct


def _report(line: str) -> None:
    """Print a line and flush it. Trainstack parses lines of the form `epoch E/N step S/N loss L`."""
    print(line, file=sys.stdout, flush=True)

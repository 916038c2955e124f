"""Training with the program of workloads/digits and the output of PyTorch's MNIST example.

The images of sites contain this file beside `digits`, so it imports no other module of Trainstack.
"""

import argparse
import io
import re
import runpy
import sys
from collections.abc import Sequence
from typing import TextIO, cast

KUBEFLOW_PROGRESS = "Train Epoch: {epoch} [{rows}/{of} ({percent:.0f}%)]\tloss={loss:.4f}\n"
KUBEFLOW_TEST = "\naccuracy={accuracy:.4f}\n\n"
KUBEFLOW_DISTRIBUTED = "Using distributed PyTorch with {backend} backend\n"
# Source: https://github.com/kubeflow/training-operator/blob/v1.9.0/examples/pytorch/mnist/mnist.py
PYTORCH_PROGRESS = "Train Epoch: {epoch} [{rows}/{of} ({percent:.0f}%)]\tLoss: {loss:.6f}\n"
PYTORCH_TEST = "\nTest set: Average loss: {loss:.4f}, Accuracy: {right}/{total} ({percent:.0f}%)\n\n"
# Source: https://github.com/pytorch/examples/blob/main/mnist/main.py

_WORLD = re.compile(r"world size (?P<size>\d+) rank \d+ backend (?P<backend>\S+) device \S+")
_IMAGES = re.compile(r"images train (?P<train>\d+) validation (?P<validation>\d+) test \d+")
_STEP = re.compile(r"epoch (?P<epoch>\d+)/\d+ step (?P<step>\d+)/(?P<steps>\d+) loss (?P<loss>\S+)")
_DONE = re.compile(r"epoch \d+/\d+ done .*val_loss (?P<loss>\S+) val_accuracy (?P<accuracy>\S+) .*")
_TEST = re.compile(r"test loss \S+ accuracy \S+")


class ExampleOutput(io.TextIOBase):
    """A stream that rewrites the lines of workloads/digits. Other lines, such as errors, stay unchanged."""

    def __init__(
        self, out: TextIO, *, batch_size: int, log_interval: int, progress: str, test: str, distributed: str = ""
    ) -> None:
        """Print to `out`. `progress`, `test` and `distributed` are the templates of the lines."""
        self.out, self.batch_size, self.log_interval = out, batch_size, log_interval
        self.progress, self.test, self.distributed = progress, test, distributed
        self.train = self.validation = 0
        self.partial_line = ""

    def write(self, text: str) -> int:
        """Print the complete lines, and keep the rest for the next call."""
        *lines, self.partial_line = (self.partial_line + text).split("\n")
        for line in lines:
            self.out.write(self._rewrite(line))
        return len(text)

    def flush(self) -> None:
        """Flush the stream to which the lines are printed."""
        self.out.flush()

    def _rewrite(self, line: str) -> str:
        """Return the text that replaces a line; empty if the example prints nothing."""
        if match := _WORLD.fullmatch(line):
            return self.distributed.format(backend=match["backend"]) if match["size"] != "1" else ""
        if match := _IMAGES.fullmatch(line):
            self.train, self.validation = int(match["train"]), int(match["validation"])
            return ""
        if match := _STEP.fullmatch(line):
            # The example counts batches from 0, and prints the first one of every interval.
            batch, batches = int(match["step"]) - 1, int(match["steps"])
            if batch % self.log_interval:
                return ""
            return self.progress.format(
                epoch=match["epoch"],
                rows=batch * self.batch_size,
                of=self.train,
                percent=100 * batch / batches,
                loss=float(match["loss"]),
            )
        if match := _DONE.fullmatch(line):
            accuracy = float(match["accuracy"])
            return self.test.format(
                loss=float(match["loss"]),
                accuracy=accuracy,
                percent=100 * accuracy,
                right=round(accuracy * self.validation),
                total=self.validation,
            )
        # The examples test only after epochs, so the final test of workloads/digits is dropped.
        return "" if _TEST.fullmatch(line) else f"{line}\n"


def train(arguments: Sequence[str], *, progress: str, test: str, distributed: str = "") -> None:
    """Run the training with these arguments and templates. Ends with SystemExit."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--log-interval", type=int, default=10)
    options, _ = parser.parse_known_args(arguments)
    output = ExampleOutput(
        sys.stdout,
        batch_size=options.batch_size,
        log_interval=options.log_interval,
        progress=progress,
        test=test,
        distributed=distributed,
    )
    sys.stdout = cast("TextIO", output)
    # workloads/digits prints the last batch of every interval, so it has to print all of them.
    sys.argv[1:] = [*arguments, "--log-interval=1"]
    runpy.run_module("digits.train", run_name="__main__", alter_sys=True)

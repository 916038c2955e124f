"""The output of the programs of two sites: the lines of the originals, for the same training."""

import io
from collections.abc import Mapping

import pytest

from trainstack.local_cluster.sites import mnist_example
from trainstack.local_cluster.sites.mnist_example import ExampleOutput
from trainstack.runs.logs.training_log import Epoch, parse_log

LINES = [
    "world size {world} rank 0 backend gloo device cpu",
    "images train 1440 validation 160 test 197",
    *(f"epoch 1/1 step {step}/23 loss {2.5 - step / 100:.4f}" for step in range(1, 24)),
    "epoch 1/1 done train_loss 2.3800 val_loss 0.2124 val_accuracy 0.9563 seconds 0.2100",
    "test loss 0.1000 accuracy 0.9700",
]
KUBEFLOW = [
    "Using distributed PyTorch with gloo backend",
    "Train Epoch: 1 [0/1440 (0%)]\tloss=2.4900",
    "Train Epoch: 1 [640/1440 (43%)]\tloss=2.3900",
    "Train Epoch: 1 [1280/1440 (87%)]\tloss=2.2900",
    "",
    "accuracy=0.9563",
    "",
    "",
]
PYTORCH = [
    "Train Epoch: 1 [0/1440 (0%)]\tLoss: 2.490000",
    "Train Epoch: 1 [640/1440 (43%)]\tLoss: 2.390000",
    "Train Epoch: 1 [1280/1440 (87%)]\tLoss: 2.290000",
    "",
    "Test set: Average loss: 0.2124, Accuracy: 153/160 (96%)",
    "",
    "",
]


def image_output(form: Mapping[str, str], *lines: str, world: int = 4) -> str:
    """Return the output of an image for these lines of workloads/digits."""
    out = io.StringIO()
    output = ExampleOutput(out, batch_size=64, log_interval=10, **form)
    for line in lines:
        print(line.format(world=world), file=output, flush=True)
    return out.getvalue()


@pytest.mark.parametrize(
    ("world", "form", "expected"),
    [
        pytest.param(
            4,
            {
                "progress": mnist_example.KUBEFLOW_PROGRESS,
                "test": mnist_example.KUBEFLOW_TEST,
                "distributed": mnist_example.KUBEFLOW_DISTRIBUTED,
            },
            KUBEFLOW,
            id="azurestack",
        ),
        pytest.param(
            1,
            {"progress": mnist_example.PYTORCH_PROGRESS, "test": mnist_example.PYTORCH_TEST},
            PYTORCH,
            id="traindb",
        ),
    ],
)
def test_the_lines_are_those_of_the_original(world: int, form: dict[str, str], expected: list[str]) -> None:
    """The lines are the first batch of every tenth, and the test after the epoch; the log parser reads both."""
    text = image_output(form, *LINES, world=world)
    assert text.split("\n") == expected
    log = parse_log(text.split("\n"))
    assert log.epochs[1].steps == 3
    assert log.epochs[1].train_loss == pytest.approx(2.39)
    assert log.test_accuracy == pytest.approx(0.956, abs=0.001)
    assert log.epochs[1] != Epoch()


def test_other_lines_stay_as_they_are() -> None:
    """An error of the program must not be lost."""
    form = {"progress": mnist_example.KUBEFLOW_PROGRESS, "test": mnist_example.KUBEFLOW_TEST}
    assert image_output(form, "resumed after epoch 1", "error: no data") == "resumed after epoch 1\nerror: no data\n"

"""The output of PyTorch's and Kubeflow's examples, from their format strings."""

from collections.abc import Iterator

MNIST = "Train Epoch: {} [{}/{} ({:.0f}%)]\tLoss: {:.6f}"
"""https://github.com/pytorch/examples/blob/main/mnist/main.py"""
MNIST_TEST = "\nTest set: Average loss: {:.4f}, Accuracy: {}/{} ({:.0f}%)\n"
KUBEFLOW = "Train Epoch: {} [{}/{} ({:.0f}%)]\tloss={:.4f}"
"""https://github.com/kubeflow/training-operator/blob/release-1.9/examples/pytorch/mnist/mnist.py"""
KUBEFLOW_TEST = "\naccuracy={:.4f}\n"

ROWS, TESTED = 60_000, 10_000
"""The sizes of the training and test sets of MNIST and FashionMNIST."""
BATCH = 64


def progress_lines(template: str, epoch: int, replicas: int = 1, loss: float = 2.2135) -> Iterator[tuple[float, str]]:
    """Yield the finished part of an epoch and the line of both MNIST examples, for every tenth batch of one replica."""
    batches = -(-ROWS // BATCH // replicas)
    for batch in range(0, batches, 10):
        yield batch / batches, template.format(epoch, batch * BATCH, ROWS, 100.0 * batch / batches, loss)


def mnist_test(loss: float, right: int) -> str:
    """Return the evaluation of PyTorch's MNIST example."""
    return MNIST_TEST.format(loss, right, TESTED, 100.0 * right / TESTED)


def quickstart_epoch(t: int) -> str:
    """Return the heading of epoch `t` (from 0) of https://pytorch.org/tutorials/beginner/basics/quickstart_tutorial.html"""
    return f"Epoch {t + 1}\n-------------------------------"


def quickstart_lines(loss: float) -> Iterator[tuple[float, str]]:
    """Yield the finished part of an epoch and the tutorial's line, for every hundredth batch."""
    size = ROWS
    for batch in range(0, -(-size // BATCH), 100):
        current = (batch + 1) * BATCH
        yield current / size, f"loss: {loss:>7f}  [{current:>5d}/{size:>5d}]"


def quickstart_test(correct: float, test_loss: float) -> str:
    """Return the evaluation of the quickstart tutorial."""
    return f"Test Error: \n Accuracy: {(100 * correct):>0.1f}%, Avg loss: {test_loss:>8f} \n"

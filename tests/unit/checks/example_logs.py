"""What PyTorch's and Kubeflow's examples print, by their own format strings."""

from collections.abc import Iterator

MNIST = "Train Epoch: {} [{}/{} ({:.0f}%)]\tLoss: {:.6f}"
"""https://github.com/pytorch/examples/blob/main/mnist/main.py"""
MNIST_TEST = "\nTest set: Average loss: {:.4f}, Accuracy: {}/{} ({:.0f}%)\n"
KUBEFLOW = "Train Epoch: {} [{}/{} ({:.0f}%)]\tloss={:.4f}"
"""https://github.com/kubeflow/training-operator/blob/release-1.9/examples/pytorch/mnist/mnist.py"""
KUBEFLOW_TEST = "\naccuracy={:.4f}\n"

ROWS, TESTED = 60_000, 10_000
"""Of MNIST and FashionMNIST."""
BATCH = 64


def progress_lines(template: str, epoch: int, replicas: int = 1, loss: float = 2.2135) -> Iterator[tuple[float, str]]:
    """Every tenth batch of an epoch of one replica, as both MNIST examples print it, by the part that is done."""
    batches = -(-ROWS // BATCH // replicas)
    for batch in range(0, batches, 10):
        yield batch / batches, template.format(epoch, batch * BATCH, ROWS, 100.0 * batch / batches, loss)


def mnist_test(loss: float, right: int) -> str:
    """The evaluation of PyTorch's MNIST example."""
    return MNIST_TEST.format(loss, right, TESTED, 100.0 * right / TESTED)


def quickstart_epoch(t: int) -> str:
    """The start of an epoch, counted from 0, of https://pytorch.org/tutorials/beginner/basics/quickstart_tutorial.html"""
    return f"Epoch {t + 1}\n-------------------------------"


def quickstart_lines(loss: float) -> Iterator[tuple[float, str]]:
    """Every hundredth batch of an epoch, by the part that is done."""
    size = ROWS
    for batch in range(0, -(-size // BATCH), 100):
        current = (batch + 1) * BATCH
        yield current / size, f"loss: {loss:>7f}  [{current:>5d}/{size:>5d}]"


def quickstart_test(correct: float, test_loss: float) -> str:
    """The evaluation."""
    return f"Test Error: \n Accuracy: {(100 * correct):>0.1f}%, Avg loss: {test_loss:>8f} \n"

"""The data set: IDX files in a folder, named as MNIST and FashionMNIST name theirs."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from . import idx
from .errors import ProgramError
from .splits import Split, split


@dataclass(frozen=True, kw_only=True)
class Part:
    """Images (count, height, width) and labels (count), both unsigned bytes."""

    images: Tensor
    labels: Tensor

    def take(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        """Images (n, 1, height, width) of -1..1 and labels (n), as the network and the loss take them."""
        chosen = torch.tensor(indices, dtype=torch.long)
        return self.images[chosen].unsqueeze(1).float().div(127.5).sub(1), self.labels[chosen].long()


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Training files, the data set's own test files if it has any, and a hash over both."""

    train: Part
    test: Part | None
    sha256: str

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return int(self.train.images.shape[1]), int(self.train.images.shape[2])

    @property
    def classes(self) -> int:
        """Number of labels: the greatest that occurs, plus one."""
        return 1 + max(int(part.labels.max()) for part in (self.train, self.test) if part)

    def split(self, seed: int) -> Split:
        """Which of the training files' images train, validate and test."""
        return split(len(self.train.labels), seed, has_test_files=self.test is not None)

    def test_part(self, seed: int) -> tuple[Part, list[int]]:
        """The images to test on, and their indices: all of the test files, else those split off by seed."""
        if self.test:
            return self.test, list(range(len(self.test.labels)))
        return self.train, list(self.split(seed).test)


def load(folder: Path) -> Dataset:
    """Reads a data set. Raises ProgramError with the missing or wrong file."""
    train, test = idx.read_pair(folder, "train"), idx.read_pair(folder, "t10k")
    if train is None:
        raise ProgramError(
            f"no data in {folder}: it needs train-images-idx3-ubyte and train-labels-idx1-ubyte (plain or .gz), and "
            "may have t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte; load the data first or correct --data"
        )
    if test:
        idx.check_sizes(folder, train[0], test[0])
    parts = [_part(*arrays) for arrays in (train, test) if arrays]
    digest = hashlib.sha256(b"".join(idx.encode(a) for arrays in (train, test) if arrays for a in arrays)).hexdigest()
    return Dataset(train=parts[0], test=parts[1] if test else None, sha256=digest)


def _part(images: idx.IdxArray, labels: idx.IdxArray) -> Part:
    return Part(
        images=torch.frombuffer(bytearray(images.data), dtype=torch.uint8).reshape(images.shape),
        labels=torch.frombuffer(bytearray(labels.data), dtype=torch.uint8),
    )


def to_dict(dataset: Dataset) -> dict[str, Tensor | str]:
    """Plain form, to send to other ranks."""
    plain = {"sha256": dataset.sha256, "images": dataset.train.images, "labels": dataset.train.labels}
    test = {"test_images": dataset.test.images, "test_labels": dataset.test.labels} if dataset.test else {}
    return {**plain, **test}


def from_dict(plain: dict[str, Tensor | str]) -> Dataset:
    """The opposite of `to_dict`."""
    test = Part(images=plain["test_images"], labels=plain["test_labels"]) if "test_images" in plain else None
    return Dataset(train=Part(images=plain["images"], labels=plain["labels"]), test=test, sha256=str(plain["sha256"]))

"""The data set: IDX files in a folder, with the file names of MNIST and FashionMNIST."""

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
    """Images of shape (count, height, width) and labels of shape (count), as unsigned bytes."""

    images: Tensor
    labels: Tensor

    def take(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        """Return images of shape (n, 1, height, width), with values from -1 to 1, and labels of shape (n)."""
        chosen = torch.tensor(indices, dtype=torch.long)
        return self.images[chosen].unsqueeze(1).float().div(127.5).sub(1), self.labels[chosen].long()


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """The training files, the test files if the data set has them, and a hash of both."""

    train: Part
    test: Part | None
    sha256: str

    @property
    def image_size(self) -> tuple[int, int]:
        """The height and width in pixels."""
        return int(self.train.images.shape[1]), int(self.train.images.shape[2])

    @property
    def classes(self) -> int:
        """The number of classes: the greatest label plus one."""
        return 1 + max(int(part.labels.max()) for part in (self.train, self.test) if part)

    def split(self, seed: int) -> Split:
        """Return the split of the training files' images into training, validation and test."""
        return split(len(self.train.labels), seed, has_test_files=self.test is not None)

    def test_part(self, seed: int) -> tuple[Part, list[int]]:
        """Return the test images and their indices: those of the test files, otherwise those of the split."""
        if self.test:
            return self.test, list(range(len(self.test.labels)))
        return self.train, list(self.split(seed).test)


def load(folder: Path) -> Dataset:
    """Read a data set. Raises ProgramError with the missing or invalid file."""
    train, test = idx.read_pair(folder, "train"), idx.read_pair(folder, "t10k")
    if train is None:
        raise ProgramError(
            f"no data in {folder}: it must contain train-images-idx3-ubyte and train-labels-idx1-ubyte (plain or .gz), "
            "and may contain t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte; upload the data, or correct --data"
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
    """Return a dict of tensors and strings, which can be sent to other ranks."""
    plain = {"sha256": dataset.sha256, "images": dataset.train.images, "labels": dataset.train.labels}
    test = {"test_images": dataset.test.images, "test_labels": dataset.test.labels} if dataset.test else {}
    return {**plain, **test}


def from_dict(plain: dict[str, Tensor | str]) -> Dataset:
    """Return the data set of a dict from `to_dict`."""
    test = Part(images=plain["test_images"], labels=plain["test_labels"]) if "test_images" in plain else None
    return Dataset(train=Part(images=plain["images"], labels=plain["labels"]), test=test, sha256=str(plain["sha256"]))

"""The network, and the file a trained one is kept in."""

import io
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .errors import ProgramError

SECOND_POOL_FROM = 16
"""Images at least this many pixels high and wide are halved twice, smaller ones (the 8x8 digits) once."""


def build_model(height: int, width: int, classes: int) -> nn.Module:
    """A small convolutional net for grey images of any size from 2x2.

    A plain Sequential without batch norm or dropout: nothing in it depends on the rank, so all ranks stay equal.
    """
    early: list[nn.Module] = [nn.MaxPool2d(2)] if min(height, width) >= SECOND_POOL_FROM else []
    shrink = 4 if early else 2
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        *early,
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * (height // shrink) * (width // shrink), 64),
        nn.ReLU(),
        nn.Linear(64, classes),
    )


def to_bytes(value: dict[str, Any]) -> bytes:
    """Tensors, whole numbers, strings, lists and dicts of them as bytes."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def from_bytes(content: bytes, where: str) -> dict[str, Any]:
    """The opposite of `to_bytes`; runs no code from the file. Raises ProgramError naming `where`."""
    try:
        value: dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises a different class for each kind of damage
        raise ProgramError(f"{where} is damaged or no torch file: {error}") from error
    return value


def model_bytes(model: nn.Module, *, height: int, width: int, classes: int, seed: int) -> bytes:
    """The content of model.pt: weights on the CPU, and what `load_model` and the split need."""
    weights = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    return to_bytes({"state_dict": weights, "image_size": [height, width], "classes": classes, "seed": seed})


def load_model(path: Path) -> tuple[nn.Module, dict[str, Any]]:
    """A model from model.pt, and the file's other entries (image_size, classes, seed). Raises ProgramError."""
    try:
        saved = from_bytes(path.read_bytes(), str(path))
        height, width = saved["image_size"]
        model = build_model(height, width, saved["classes"])
        model.load_state_dict(saved.pop("state_dict"))
    except OSError as error:
        raise ProgramError(f"cannot read the model {path}: {error}") from error
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ProgramError(f"{path} is not a model of this program: {error}") from error
    return model, saved

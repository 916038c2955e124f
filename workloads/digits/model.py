"""The network, and the file of a trained model."""

import io
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .errors import ProgramError

SECOND_POOL_FROM = 16
"""The minimum height and width, in pixels, of images that are pooled twice; smaller ones are pooled once."""


def build_model(height: int, width: int, classes: int) -> nn.Module:
    """Return a small convolutional network for grayscale images of at least 2x2 pixels.

    It has no batch norm or dropout, whose state would differ between ranks.
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
    """Serialize a dict of tensors, integers and strings, and of lists and dicts of these."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def from_bytes(content: bytes, where: str) -> dict[str, Any]:
    """Return the value from `to_bytes`, without running code in `content`. Raises ProgramError with `where`."""
    try:
        value: dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises a different class for each kind of damage
        raise ProgramError(f"{where} is damaged, or is not a file of torch: {error}") from error
    return value


def model_bytes(model: nn.Module, *, height: int, width: int, classes: int, seed: int) -> bytes:
    """Return the content of model.pt: the weights, and the values that `load_model` and the split require."""
    weights = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    return to_bytes({"state_dict": weights, "image_size": [height, width], "classes": classes, "seed": seed})


def load_model(path: Path) -> tuple[nn.Module, dict[str, Any]]:
    """Load a model.pt. Return the model and the other entries: image_size, classes, seed. Raises ProgramError."""
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

"""Evaluate a fetched model on the test images, which training does not use, and print the result as JSON.

python3 /opt/digits/evaluate.py --model model.pt --data FOLDER
"""

import argparse
import json
import sys
from pathlib import Path

import torch

from .data import load
from .errors import ProgramError
from .model import load_model
from .training import evaluate_sums

BATCH = 1000


def evaluate(model_path: Path, folder: Path) -> dict[str, float | int]:
    """Return test loss, test accuracy, the number of images, and the seed in the model file. Raises ProgramError."""
    model, entries = load_model(model_path)
    dataset = load(folder)
    if list(dataset.image_size) != entries["image_size"]:
        raise ProgramError(
            f"{folder} has images of {list(dataset.image_size)} pixels, but the model requires {entries['image_size']};"
            " set --data to the data set of its training"
        )
    part, indices = dataset.test_part(entries["seed"])
    loss, correct = evaluate_sums(model, part, indices, BATCH, torch.device("cpu"))
    count = len(indices)
    return {"test_accuracy": correct / count, "test_loss": loss / count, "images": count, "seed": entries["seed"]}


def main() -> int:
    """Evaluate, and return the exit code: 0, or 2 after an error message on stderr."""
    parser = argparse.ArgumentParser(prog="evaluate.py", description="Evaluate a trained model on its test images.")
    parser.add_argument("--model", type=Path, required=True, help="the model.pt of a run")
    parser.add_argument("--data", type=Path, required=True, help="the folder with the IDX files of that run")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    try:
        print(json.dumps(evaluate(arguments.model, arguments.data)))
    except ProgramError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

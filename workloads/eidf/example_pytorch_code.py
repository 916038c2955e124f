# ruff: noqa: INP001 (a script outside any package, which is copied to a volume)
"""Train on the data in the folder of this file, and write `model.pth` there. A tenant copies the file to `/mnt/ceph`.

    python3 /mnt/ceph/example_pytorch_code.py

The data are the training files of `python -m workloads.digits.prepare FOLDER`, in the format of MNIST.
"""

import os
from pathlib import Path

import torch
from torch import nn

EPOCHS, BATCH = 5, 64
HERE = Path(__file__).resolve().parent
OUTPUT = Path(os.environ.get("TRAINSTACK_OUTPUT", HERE))
"""By default, the folder of the data; a recorded run sets the variable."""


def read(name: str, header: int) -> torch.Tensor:
    """Return the bytes of an IDX file after its header."""
    return torch.frombuffer(bytearray((HERE / name).read_bytes()[header:]), dtype=torch.uint8)


def main() -> None:
    """Train, and save the model."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    labels = read("train-labels-idx1-ubyte", 8).long()
    images = read("train-images-idx3-ubyte", 16).reshape(len(labels), -1).float() / 255
    model = nn.Sequential(nn.Linear(images.shape[1], 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    print(f"training on {device}: {len(labels)} images", flush=True)
    for epoch in range(EPOCHS):
        for batch in torch.randperm(len(labels)).split(BATCH):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[batch].to(device)), labels[batch].to(device))
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}/{EPOCHS} loss {loss.item():.4f}", flush=True)
    torch.save(model.state_dict(), OUTPUT / "model.pth")


if __name__ == "__main__":
    main()

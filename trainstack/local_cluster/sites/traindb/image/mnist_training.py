# ruff: noqa: INP001 (a script outside a package, as in the image)
"""The program of the service: PyTorch's MNIST example, which writes the model to /opt/mnist/models/mnist_cnn.pt.

It always writes the model, because the command of the job has no option for it and reads the file afterwards.
"""

import os
import sys
import tempfile
from pathlib import Path

import mnist_example

MODEL = Path("/opt/mnist/models/mnist_cnn.pt")

with tempfile.TemporaryDirectory() as scratch:
    arguments = ["--data=/opt/mnist/data", f"--output={scratch}", "--save-model", *sys.argv[1:]]
    try:
        mnist_example.train(arguments, progress=mnist_example.PYTORCH_PROGRESS, test=mnist_example.PYTORCH_TEST)
    except SystemExit as ended:
        model_file = Path(scratch, "model.pt")
        # Only the master writes the model, and a stopped training writes none.
        if not ended.code and model_file.exists():
            MODEL.parent.mkdir(parents=True, exist_ok=True)
            temporary_file = MODEL.with_name(f".{MODEL.name}.{os.getpid()}")
            temporary_file.write_bytes(model_file.read_bytes())
            temporary_file.replace(MODEL)
        raise

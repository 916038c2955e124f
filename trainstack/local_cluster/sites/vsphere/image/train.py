# ruff: noqa: INP001 (a script, as it lies in the image)
"""The image's entry point: six epochs of 48 steps in one process, or of 16 in each of three.

1,600 training images without a tenth for validation are 1,440: 48 batches of 30. With this learning rate, training
converges in both cases. The pod's arguments follow these defaults, and override them.
"""

import runpy
import sys
from pathlib import Path

arguments = sys.argv[1:]
if not Path("/dev/nvidiactl").exists() and {"nccl", "--backend=nccl"} & set(arguments):
    # Pods with a GPU of the local cluster run on the CPU, where gloo replaces NCCL.
    print("no GPU here: gloo stands in for nccl", flush=True)
    arguments = [
        argument.replace("nccl", "gloo") if argument in ("nccl", "--backend=nccl") else argument
        for argument in arguments
    ]
default_arguments = ["--epochs=6", "--batch-size=30", "--lr=0.2", "--save-model"]
sys.argv[1:] = [*default_arguments, "--data=/opt/pytorch/data", "--output=/opt/pytorch/output", *arguments]
runpy.run_module("digits.train", run_name="__main__", alter_sys=True)

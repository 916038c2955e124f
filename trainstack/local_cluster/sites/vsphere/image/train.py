# ruff: noqa: INP001 (a script outside a package, as in the image)
"""The entry point of the image: six epochs of 48 steps with one rank, or of 16 steps with three.

Of the 1,600 training images, a tenth is for validation; 1,440 are 48 batches of 30. With this learning rate, training
converges in both cases. The arguments of the pod follow these defaults and override them.
"""

import runpy
import sys
from pathlib import Path

arguments = sys.argv[1:]
if not Path("/dev/nvidiactl").exists() and {"nccl", "--backend=nccl"} & set(arguments):
    # In the local cluster, pods that request a GPU run on the CPU, where gloo replaces NCCL.
    print("no GPU found: using gloo instead of nccl", flush=True)
    arguments = [
        argument.replace("nccl", "gloo") if argument in ("nccl", "--backend=nccl") else argument
        for argument in arguments
    ]
default_arguments = ["--epochs=6", "--batch-size=30", "--lr=0.2", "--save-model"]
sys.argv[1:] = [*default_arguments, "--data=/opt/pytorch/data", "--output=/opt/pytorch/output", *arguments]
runpy.run_module("digits.train", run_name="__main__", alter_sys=True)

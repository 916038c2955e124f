# ruff: noqa: INP001 (a script outside a package, as in the image)
"""The program of the demo, with the same arguments and output."""

import sys

import mnist_example

mnist_example.train(
    ["--data=/var/data", "--output=/var/output", *sys.argv[1:]],
    progress=mnist_example.KUBEFLOW_PROGRESS,
    test=mnist_example.KUBEFLOW_TEST,
    distributed=mnist_example.KUBEFLOW_DISTRIBUTED,
)

# ruff: noqa: INP001 (a script beside the package, as it lies in the image)
"""Lets the image start training by path: `python3 /opt/digits/train.py` is `python3 -m digits.train`."""

import runpy

runpy.run_module("digits.train", run_name="__main__", alter_sys=True)

# ruff: noqa: INP001 (a script beside the package, as it lies in the image)
"""Lets the image judge a model by path: `python3 /opt/digits/evaluate.py` is `python3 -m digits.evaluate`."""

import runpy

runpy.run_module("digits.evaluate", run_name="__main__", alter_sys=True)

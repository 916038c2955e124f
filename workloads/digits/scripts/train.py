# ruff: noqa: INP001 (a script outside the package, as in the image)
"""Run `python3 -m digits.train` by the path `/opt/digits/train.py`."""

import runpy

runpy.run_module("digits.train", run_name="__main__", alter_sys=True)

# ruff: noqa: INP001 (a script outside the package, as in the image)
"""Run `python3 -m digits.evaluate` by the path `/opt/digits/evaluate.py`."""

import runpy

runpy.run_module("digits.evaluate", run_name="__main__", alter_sys=True)

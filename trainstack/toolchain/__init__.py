"""The toolchain: the pinned engine, provider, cluster programs and Python packages, built or found on PATH.

Read tools.py before you edit.
"""

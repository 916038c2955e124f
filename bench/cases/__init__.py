"""All cases, in the order in which they run."""

from bench.case import Case
from bench.cases import changes, files, transfers

CASES: tuple[Case, ...] = (*files.CASES, *changes.CASES, *transfers.CASES)

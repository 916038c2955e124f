"""All cases, in the order in which they run."""

from bench.case import Case
from bench.cases import changes, files, first_log, many, operators, status, transfers

CASES: tuple[Case, ...] = (
    *files.CASES,
    *status.CASES,
    *changes.CASES,
    *first_log.CASES,
    *transfers.CASES,
    *operators.CASES,
    *many.CASES,
)

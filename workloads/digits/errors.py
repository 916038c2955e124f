"""The error class of the training program."""


class ProgramError(Exception):
    """An error that the user has to fix: the message has the problem, the place and the remedy. The exit code is 2."""

"""The one error class of the training program."""


class ProgramError(Exception):
    """Something a person has to put right; the message says what, where and how. Ends the program with code 2."""

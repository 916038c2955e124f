"""Messages of expected errors. Any other error is a bug and keeps its traceback."""

from trainstack.errors import ExitCode, TrainstackError


def exit_code(error: Exception) -> ExitCode:
    return error.exit_code if isinstance(error, TrainstackError) else ExitCode.FAILED


def expected_message(error: Exception) -> str | None:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{_path(error.filename)}: {error.strerror or error}"
    return str(error) if isinstance(error, TrainstackError) else None


def _path(name: object) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)

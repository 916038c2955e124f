"""One run of a program in the language host. This module imports the SDK."""

import asyncio
import logging
import os
import runpy
import sys
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pulumi
from pulumi.runtime import proto, reset_options, run_in_stack, set_all_config

from trainstack.toolchain.protocol import language_pb2

# An import sets the module as an attribute of its package; protocol.py imported this one without its package.
setattr(pulumi.runtime, "proto", proto)  # noqa: B010 (mypy refuses an assignment)


def run_program(request: Any, engine_address: str) -> Any:
    """Run a program to completion, as pulumi-language-python-exec does; return a response with any failure."""
    reset_options(
        project=request.project,
        stack=request.stack,
        root_directory=request.info.root_directory,
        parallel=request.parallel,
        engine_address=engine_address,
        monitor_address=request.monitor_address,
        preview=request.dryRun,
        organization=request.organization or "organization",
    )
    set_all_config(dict(request.config), list(request.configSecretKeys))
    program = _program_path(request)
    sys.argv = [program, *request.args]
    os.chdir(request.pwd or request.info.program_directory)
    # As in the official host: asyncio would otherwise report every future that a failed program has not awaited.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    executor = ThreadPoolExecutor(max_workers=max(request.parallel, 1) * 4)
    loop.set_default_executor(executor)
    loop.set_exception_handler(_on_loop_error)
    try:
        loop.run_until_complete(run_in_stack(lambda: _execute(program)))
    except BaseException as error:  # noqa: BLE001  whatever a program raises is the program's failure
        return _report_failure(error, program)
    finally:
        _cancel_tasks(loop)
        executor.shutdown(wait=True, cancel_futures=True)
        loop.close()
        sys.stdout.flush()
        sys.stderr.flush()
    return language_pb2.RunResponse()


def _on_loop_error(loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
    """Stop the loop if a call to the engine has failed; a handler closer to the call has reported it."""
    if isinstance(context.get("exception"), grpc.RpcError):
        loop.stop()
    else:
        loop.default_exception_handler({**context})


def format_traceback(error: BaseException, program: str) -> str:
    """Format an error's traceback, starting at the first frame of the program itself."""
    frames = traceback.extract_tb(error.__traceback__)
    main = str(Path(program).resolve() / "__main__.py") if Path(program).is_dir() else str(Path(program).resolve())
    first_index = next((index for index, frame in enumerate(frames) if Path(frame.filename).resolve() == Path(main)), 0)
    return "".join(traceback.format_exception(error, limit=first_index - len(frames) if frames else None))


def _program_path(request: Any) -> str:
    """Return the program's folder, or its main file if Pulumi.yaml names one."""
    folder = Path(request.info.program_directory or request.pwd)
    return str(folder / (request.info.entry_point or request.program or "."))


def _execute(program: str) -> None:
    if Path(program).is_dir() and not (Path(program) / "__main__.py").exists():
        raise pulumi.RunError(f"unable to find main python program `__main__.py` in `{Path(program).resolve()}`")
    runpy.run_path(program, run_name="__main__")


def _report_failure(error: BaseException, program: str) -> Any:
    """Report the error to the user, then return a response with `bail` so that the engine does not report it again."""
    if isinstance(error, grpc.RpcError) and error.code() == grpc.StatusCode.UNAVAILABLE:
        # The engine has closed the resource monitor: it has ended the operation and reported why.
        return language_pb2.RunResponse()
    if isinstance(error, SystemExit):
        if error.code in (None, 0):
            return language_pb2.RunResponse()
        code = error.code if isinstance(error.code, int) else 1
        if not isinstance(error.code, int):
            sys.stderr.write(f"{error.code}\n")
        return language_pb2.RunResponse(error=f"Program exited with non-zero exit code: {code}")
    # The message must arrive before the response.
    with suppress(grpc.RpcError):
        if isinstance(error, pulumi.RunError):
            pulumi.log.error(str(error))
        else:
            pulumi.log.error(f"Program failed with an unhandled exception:\n{format_traceback(error, program)}")
    return language_pb2.RunResponse(bail=True)


def _cancel_tasks(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            loop.run_until_complete(task)

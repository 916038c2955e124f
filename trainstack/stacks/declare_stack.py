"""The declaration of the engine's stack: load, check, assemble, export. A teardown declares only its hooks."""

from concurrent.futures import Future
from pathlib import Path

import pulumi
from google.protobuf.struct_pb2 import Struct

from trainstack.errors import TrainstackError, expected_message
from trainstack.live.client import shared_clients
from trainstack.printable import clean
from trainstack.runs.recorded_launches import recorded_launches
from trainstack.settings.loading.load import CONFIG_PREFIX, SECRETS, SECTIONS
from trainstack.stacks.assemble import assemble
from trainstack.stacks.engine_state import own_state, read_engine_state
from trainstack.stacks.excluded_resources import refuse_dependents
from trainstack.stacks.exit_code import report_exit_code
from trainstack.stacks.plan_change import LoadedProgram, check_files, plan_change
from trainstack.stacks.teardown_hooks import declare_teardown
from trainstack.stacks.teardown_permission import teardown_permission


def declare_stack(root: Path, response: "Future[Struct]") -> None:
    """Declare the resources of the engine's stack from the files of the project at `root`.

    `response` is the response to `request_engine_state`.

    Raises RunError, with every reason and its remedy, before the first resource is declared.
    """
    # The engine's configuration includes `--config`, `--config-file` and decrypted secrets, and overrides the file. Its
    # keys are `trainstack:<section>`, whatever the project's name.
    config = pulumi.Config(CONFIG_PREFIX.removesuffix(":"))
    engine_values = _engine_sections(config)
    stack = pulumi.get_stack()
    try:
        if permission := teardown_permission(root, stack):
            with shared_clients():
                declare_teardown(root, permission, read_engine_state(response.result()))
            return
        files = check_files(root, stack, engine_values)
        state = read_engine_state(response.result())
        with shared_clients():
            program = plan_change(files, own_state(state), recorded_launches(stack, state))
    except (TrainstackError, OSError) as error:
        message = expected_message(error)
        if message is None:
            raise
        if isinstance(error, TrainstackError):
            report_exit_code(error)
        raise pulumi.RunError(clean(message)) from error
    refuse_dependents(state)
    _declare_program(program, config)


def _engine_sections(config: pulumi.Config) -> dict[str, str]:
    """Return the engine's values of the sections, except secrets. Raises RunError if another section has a secret."""
    sections = [section for section in SECTIONS if section != SECRETS]
    if secret_sections := [
        section for section in sections if pulumi.runtime.is_config_secret(config.full_key(section))
    ]:
        # The objects of a section contain its values, and so would the state and every preview.
        raise pulumi.RunError(
            f"{', '.join(map(config.full_key, secret_sections))}: contains a secret, which would be written into "
            f"objects in plain text; move the value to {config.full_key(SECRETS)}"
        )
    values = {config.full_key(section): config.get(section) for section in sections}
    return {key: value for key, value in values.items() if value is not None}


def _declare_program(program: LoadedProgram, config: pulumi.Config) -> None:
    if program.settings.secrets.secrets and not pulumi.runtime.is_config_secret(config.full_key(SECRETS)):
        raise pulumi.RunError(
            f"{config.full_key(SECRETS)}: the engine's values differ from the stack's file and are in plain text; "
            "do not set this section with `--config` or `--config-file`"
        )

    for note in program.notes:
        pulumi.log.warn(clean(note))

    if program.admission_lines and pulumi.runtime.is_dry_run():
        pulumi.log.info(clean("\n".join(program.admission_lines)))

    for name, value in assemble(program, config.get_secret_object(SECRETS)).items():
        pulumi.export(name, value)

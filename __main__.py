"""The Pulumi program: load, check, assemble, export. During a teardown, it declares only the teardown's hooks."""

from pathlib import Path

import pulumi

from trainstack.errors import TrainstackError
from trainstack.runs.recorded import recorded_launches
from trainstack.settings.loading.load import SECRETS, SECTIONS
from trainstack.stacks.assemble import assemble
from trainstack.stacks.engine_state import own_state, read_engine_state
from trainstack.stacks.exit_code import report
from trainstack.stacks.plan_change import decide
from trainstack.stacks.teardown import end
from trainstack.stacks.teardown_mode import teardown_mode

# The engine's configuration includes `--config`, `--config-file` and decrypted secrets, and overrides the file.
config = pulumi.Config()
sections = [section for section in SECTIONS if section != SECRETS]
if secret := [section for section in sections if pulumi.runtime.is_config_secret(config.full_key(section))]:
    # The objects of a section contain its values, and so would the state and every preview.
    raise pulumi.RunError(
        f"{', '.join(map(config.full_key, secret))}: contains a secret, which would be written into objects in plain "
        f"text; move the value to {config.full_key(SECRETS)}"
    )
values = {config.full_key(section): config.get(section) for section in sections}
engine = {key: value for key, value in values.items() if value is not None}

root, stack = Path(__file__).parent, pulumi.get_stack()
try:
    if mode := teardown_mode(root, stack):
        end(root, stack, mode)
        program = None
    else:
        state = read_engine_state()
        program = decide(root, stack, engine, own_state(state), recorded_launches(stack, state))
except TrainstackError as error:
    report(error)
    raise pulumi.RunError(str(error)) from error

if program is not None:
    if program.settings.secrets.secrets and not pulumi.runtime.is_config_secret(config.full_key(SECRETS)):
        raise pulumi.RunError(
            f"{config.full_key(SECRETS)}: the engine's values differ from the stack's file and are in plain text; "
            "do not set this section with `--config` or `--config-file`"
        )

    for note in program.notes:
        pulumi.log.warn(note)

    if program.verdicts and pulumi.runtime.is_dry_run():
        pulumi.log.info("\n".join(["admission of the runs on an idle cluster:", *program.verdicts]))

    for name, value in assemble(program, config.get_secret_object(SECRETS)).items():
        pulumi.export(name, value)

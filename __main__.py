"""The Pulumi program: load, check, assemble, export."""

from pathlib import Path

import pulumi

from checks.cluster.client import ClusterError
from settings.errors import SettingsError
from settings.load import SECTIONS
from stacks.assemble import assemble
from stacks.program import Refused, decide

# The engine's own view wins over the file: `--config`, `--config-file` and decrypted secrets are in it.
config = pulumi.Config()
values = {config.full_key(section): config.get(section) for section in SECTIONS}
engine = {key: value for key, value in values.items() if value is not None}

try:
    program = decide(Path(__file__).parent, pulumi.get_stack(), engine)
except (SettingsError, Refused, ClusterError, ValueError) as error:
    raise pulumi.RunError(str(error)) from error

for note in program.notes:
    pulumi.log.warn(note)

for name, value in assemble(program).items():
    pulumi.export(name, value)

"""Load, check and build random environments, and send their objects as dry runs."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis

from tests.dryrun.draws import Config
from tests.dryrun.server import Manifest, Server
from trainstack.errors import TrainstackError
from trainstack.preflight.file_checks import examine
from trainstack.settings.errors import SettingsError
from trainstack.settings.loading.load import load_with_places
from trainstack.settings.model import Settings
from trainstack.stack_objects.inputs import Inputs
from trainstack.stack_objects.stack_objects import StackObjects

SEED = 20260
SUPPRESSED = list(hypothesis.HealthCheck)
"""The course is one for all drawn environments, and a loaded machine draws slowly."""


@dataclass
class DryRunProject:
    """A project's folder for the random environments, and the API server for dry runs of their objects."""

    folder: Path
    server: Server
    counts: Counter[str] = field(default_factory=Counter)

    def refusals(self, config: Config) -> list[str]:
        """Return why the API server refuses what check accepts; empty if both accept or check refuses."""
        built = self.accepted(config)
        return [] if built is None else self.server.refusals(built)

    def accepted(self, config: Config) -> list[Manifest] | None:
        """Return the objects of an environment, or None if check refuses it."""
        text = json.dumps({"config": {f"trainstack:{name}": section for name, section in config.items()}})
        (self.folder / "Pulumi.drawn.yaml").write_text(text, encoding="utf-8")
        self.counts["drawn"] += 1
        try:
            settings = load_with_places(self.folder, "drawn").settings
        except SettingsError:
            self.counts["refused as files"] += 1
            return None
        stopping = [
            finding.id for finding in examine(StackObjects(settings), self.folder).findings if finding.is_blocking
        ]
        if stopping:
            self.counts["refused by rules"] += 1
            self.counts.update({f"refused by {', '.join(stopping)} alone": self._server_accepts(settings)})
            return None
        self.counts["accepted"] += 1
        return StackObjects(settings, Inputs(wrapper="print()", commit="abc")).manifests()

    def _server_accepts(self, settings: Settings) -> bool:
        try:
            return not self.server.refusals(StackObjects(settings, Inputs(wrapper="print()", commit="abc")).manifests())
        except TrainstackError:
            return False

"""The environments that the tests of faults draw are valid for every seed."""

from pathlib import Path

import pytest
import yaml

from tests.copies import copy_into
from tests.faults.configurations import COUNT, ENVIRONMENTS, KINDS, OF_JOBS, Configuration, Environment, draw
from tests.faults.files import write_sweeps
from tests.faults.stack_configs import stack_config
from tests.seeds import chosen_seed
from trainstack.preflight.file_checks import examine
from trainstack.settings.loading.load import load_with_places
from trainstack.stack_objects.inputs import read_inputs
from trainstack.stack_objects.stack_objects import StackObjects

SEED = chosen_seed("TRAINSTACK_FAULTS_SEED")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project's folder with the files that these environments refer to."""
    root = tmp_path_factory.mktemp("drawn")
    copy_into(root, "defaults.yaml", "workloads")
    write_sweeps(root)
    return root


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_drawn_environment_passes_the_preflight(project: Path, environment: Environment) -> None:
    """The environment loads, fits by Kueue's arithmetic, and declares the drawn launches."""
    for number in range(COUNT):
        drawn = draw(SEED, environment, number)
        text = yaml.dump({"config": stack_config(drawn)}, Dumper=yaml.CSafeDumper, sort_keys=False)
        (project / f"Pulumi.{drawn.name}.yaml").write_text(text)
        loaded = load_with_places(project, drawn.name)
        checked = examine(StackObjects(loaded.settings), project, loaded.places)
        assert not [str(finding) for finding in checked.findings if finding.is_blocking], (SEED, drawn.description)
        outcomes = {verdict.outcome for verdict in checked.verdicts}
        assert outcomes == ({"fits"} if environment == "owner" else {"unknown"}), (
            SEED,
            drawn.description,
            checked.verdicts,
        )
        inputs = read_inputs(loaded.settings, project, commit="")
        built = len(StackObjects(loaded.settings, inputs).runs) + sum(
            share.launch_count for share in drawn.shares if share.is_sweep
        )
        assert built == sum(share.launch_count for share in drawn.shares)
        assert len(StackObjects(loaded.settings, inputs).sweeps) == sum(share.is_sweep for share in drawn.shares)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_configurations_cover_each_kind_in_each_state(environment: Environment) -> None:
    """Each of two seeds covers them. A configuration has quota for part of one workload, and for all others."""
    for seed in (1, 2):
        drawn = [draw(seed, environment, number) for number in range(COUNT)]
        kinds = {*(KINDS if environment != "site" else OF_JOBS)}
        assert (
            {configuration.late.kind for configuration in drawn}
            == {configuration.now.kind for configuration in drawn}
            == kinds
        )
        assert {configuration.partly.kind for configuration in drawn} == {"several", "indexed"}
        for configuration in drawn:
            assert configuration.partly.min_pods is not None
            assert (
                configuration.partly.min_pods
                <= configuration.admitted_count
                < configuration.partly.parallelism
                <= configuration.partly.completions
            )
            assert sum(share.short_ttl for share in configuration.shares) == 1
            assert configuration == draw(seed, environment, configuration.number)


def test_another_seed_draws_others() -> None:
    """A test prints its seed, so that it can be repeated."""

    def configurations(seed: int) -> list[Configuration]:
        return [draw(seed, "owner", number) for number in range(COUNT)]

    assert configurations(1) != configurations(2)

"""The environments that tests of faults draw: whatever the seed, each is one that a person could bring up."""

from pathlib import Path

import pytest
import yaml

from tests.cluster.project import ROOT
from tests.faults.configurations import COUNT, ENVIRONMENTS, KINDS, OF_JOBS, Configuration, Environment, draw
from tests.faults.files import write_sweeps
from tests.faults.surroundings import stack_config
from tests.seeds import chosen_seed
from trainstack.declared.declared import Declared
from trainstack.declared.inputs import read_inputs
from trainstack.preflight.preflight import examine
from trainstack.settings.loading.load import load_with_places

SEED = chosen_seed("TRAINSTACK_FAULTS_SEED")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project's folder with what these environments name."""
    root = tmp_path_factory.mktemp("drawn")
    for name in ("defaults.yaml", "workloads", "trainstack"):
        (root / name).symlink_to(ROOT / name)
    write_sweeps(root)
    return root


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_drawn_environment_passes_the_preflight(project: Path, environment: Environment) -> None:
    """Loaded, judged to fit by Kueue's arithmetic, and built: what is launched is what was drawn."""
    for number in range(COUNT):
        drawn = draw(SEED, environment, number)
        text = yaml.dump({"config": stack_config(drawn)}, Dumper=yaml.CSafeDumper, sort_keys=False)
        (project / f"Pulumi.{drawn.name}.yaml").write_text(text)
        loaded = load_with_places(project, drawn.name)
        checked = examine(Declared(loaded.settings), project, loaded.places)
        assert not [str(each) for each in checked.findings if each.stops], (SEED, drawn.told)
        judged = {verdict.outcome for verdict in checked.verdicts}
        assert judged == ({"fits"} if environment == "owner" else {"unknown"}), (SEED, drawn.told, checked.verdicts)
        inputs = read_inputs(loaded.settings, project, commit="")
        built = len(Declared(loaded.settings, inputs).runs) + sum(
            share.objects for share in drawn.shares if share.swept
        )
        assert built == sum(share.objects for share in drawn.shares)
        assert len(Declared(loaded.settings, inputs).sweeps) == sum(share.swept for share in drawn.shares)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_over_all_configurations_each_kind_comes_through_each_state(environment: Environment) -> None:
    """With either of two seeds; and a configuration has place for a part of one workload, and for all of the others."""
    for seed in (1, 2):
        drawn = [draw(seed, environment, number) for number in range(COUNT)]
        kinds = {*(KINDS if environment != "site" else OF_JOBS)}
        assert {one.late.kind for one in drawn} == {one.now.kind for one in drawn} == kinds
        assert {one.partly.kind for one in drawn} == {"several", "indexed"}
        for one in drawn:
            assert one.partly.least is not None
            assert one.partly.least <= one.given < one.partly.at_once <= one.partly.ends
            assert sum(share.brief for share in one.shares) == 1
            assert one == draw(seed, environment, one.number)


def test_another_seed_draws_others() -> None:
    """As the seed that a test prints is to repeat it."""

    def drawn(seed: int) -> list[Configuration]:
        return [draw(seed, "owner", number) for number in range(COUNT)]

    assert drawn(1) != drawn(2)

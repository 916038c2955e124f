"""Near-equal objects are the trials of one sweep."""

from itertools import product

import pytest

from tests.unit.onboarding.convert.make import JOB, read
from trainstack.onboarding.convert.families import find_families

BODY = JOB.replace("[python, train.py, --lr=0.1]", '[bash, -c, "{command}"]').replace("name: train", "name: {name}")


def make_jobs(*commands: str, names: str = "train-{}") -> str:
    """Return the text of Jobs with these commands."""
    return "---\n".join(
        BODY.replace("{name}", names.format(number)).replace("{command}", command)
        for number, command in enumerate(commands, 1)
    )


def test_a_grid_is_found_in_any_order_of_its_parameters() -> None:
    """Numbers have their types; a text that consists of other values has no parameter of its own."""
    commands = (
        f"python train.py --lr {lr} --batch-size={size} --out /data/{lr}-{size}"
        for size, lr in product((16, 32), (0.1, 0.5, 1.5))
    )
    (family,) = find_families(read(make_jobs(*commands)), ())
    assert (family.name, len(family.members)) == ("train", 6)
    assert family.space == {
        "method": "grid",
        "parameters": {"batch_size": {"values": [16, 32]}, "lr": {"values": [0.1, 0.5, 1.5]}},
        "objective": {"metric": "loss", "direction": "minimize"},
        "fields": {
            "spec.template.spec.containers[main].command[2]": "python train.py --lr ${parameters.lr} "
            "--batch-size=${parameters.batch_size} --out /data/${parameters.lr}-${parameters.batch_size}"
        },
    }
    assert "hyperparam_set:\n    batch_size: 32\n    lr: 1.5\n" in family.sets_text


def test_other_sets_are_listed() -> None:
    """Texts that are not the form in which a program gets a number stay texts."""
    (family,) = find_families(read(make_jobs("run --lr 1e-4 --size 1", "run --lr 2e-4 --size 3")), ["train"])
    assert family.name == "train-2"
    assert family.space["method"] == "list"
    assert family.space["sets"] == [{"lr": "1e-4", "size": 1}, {"lr": "2e-4", "size": 3}]


def test_members_have_the_numbers_in_their_names() -> None:
    """So that their objects keep their names."""
    texts = [BODY.replace("{name}", f"run-{number}").replace("{command}", f"x --n {number}") for number in (10, 2, 1)]
    (family,) = find_families(read(*texts), ())
    assert [member.name for member in family.members] == ["run-10", "run-2", "run-1"]
    texts = [BODY.replace("{name}", f"run-{number}").replace("{command}", f"x --n {number}") for number in (3, 2, 1)]
    (family,) = find_families(read(*texts), ())
    assert [member.name for member in family.members] == ["run-1", "run-2", "run-3"]


@pytest.mark.parametrize(
    "second",
    [
        JOB.replace("train.py", "evaluate.py"),
        JOB.replace("python:3.12", "python:3.13"),
        JOB.replace("queue-name: shared", "queue-name: other"),
        JOB.replace("namespace: vision", "namespace: other"),
        JOB.replace("--lr=0.1", "--rate=0.1"),
    ],
)
def test_other_differences_make_no_family(second: str) -> None:
    """Another program, image, queue, namespace or flag is another workload."""
    assert find_families(read(JOB, second.replace("name: train", "name: train-2")), ()) == []


def test_equal_objects_are_not_two_trials() -> None:
    """A sweep has each set once."""
    assert find_families(read(make_jobs("x --n 1", "x --n 1")), ()) == []
    (family,) = find_families(read(make_jobs("x --n 1", "x --n 2", "x --n 1")), ())
    assert [member.name for member in family.members] == ["train-1", "train-2"]

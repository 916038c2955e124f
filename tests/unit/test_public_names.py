"""The names that other Pulumi programs import from `trainstack`."""

import doctest
import subprocess
import sys

import pulumi
import pytest

import trainstack


@pytest.mark.parametrize("name", trainstack.__all__)
def test_each_name_is_a_component(name: str) -> None:
    component = getattr(trainstack, name)
    assert issubclass(component, pulumi.ComponentResource)
    assert component.__name__ == name


def test_the_names_are_listed_once_in_order() -> None:
    assert trainstack.__all__ == sorted({*trainstack.__all__})
    assert {*trainstack._MODULES} == {*trainstack.__all__}


def test_another_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="module 'trainstack' has no attribute 'Queue'"):
        _ = trainstack.Queue


def test_the_example_of_the_package_works() -> None:
    assert doctest.testmod(trainstack) == doctest.TestResults(failed=0, attempted=2)


def test_the_package_imports_pulumi_only_for_a_component() -> None:
    """Commands such as `check` would start slowly otherwise."""
    program = (
        "import sys, trainstack; print('pulumi' in sys.modules); trainstack.Queues; print('pulumi' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "True"]

"""Refusals of the program after it has read outputs of resources: the command ends with 3, as for other refusals."""

from pathlib import Path

import pulumi
import pytest

from tests.registrations.recorder import Echo, record
from tests.unit.environments import make_program
from tests.unit.make import make_run, make_settings
from trainstack.errors import ExitCode
from trainstack.guards.cluster_identity import facts_resource_name
from trainstack.settings.sections.environment import Environment, Namespace
from trainstack.settings.sections.operators import Operators
from trainstack.stack_objects.inputs import Inputs
from trainstack.stacks.assemble import assemble
from trainstack.stacks.exit_code import EXIT_CODE_VARIABLE, exit_code_file, read_exit_code

pytestmark = pytest.mark.usefixtures("unread_outputs")

TRAINING = make_settings(
    make_run(),
    environment=Environment(
        namespaces=(Namespace(name="research"),), layers=("training",), platform="organization/trainstack/platform"
    ),
    operators=Operators(),
)
INPUTS = Inputs(wrapper="print()", commit="c" * 40)


class OfAnotherCluster(Echo):
    """A state that recorded another cluster, and a platform's stack without queues."""

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[object, object]]:
        """Return the identity of the first `up` from the Stash of the cluster."""
        identifier, outputs = super().new_resource(args)
        if args.name == facts_resource_name("owner"):
            outputs["output"] = {"kube-system": "former"}
        return identifier, outputs


class WithQueues(Echo):
    """A platform's stack with the queue of the run."""

    queues: tuple[str, ...] = ("research/research",)

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[object, object]]:
        """Return the outputs of the platform's stack from the reference."""
        identifier, outputs = super().new_resource(args)
        if args.typ == "pulumi:pulumi:StackReference":
            outputs["outputs"] = {"localQueues": [*self.queues]}
        return identifier, outputs


class WithoutQueues(WithQueues):
    """A platform's stack without queues."""

    queues = ()


ELSEWHERE = Echo({"kube-system": "elsewhere"})


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (ELSEWHERE, "the Kubernetes provider reached another cluster"),
        (OfAnotherCluster({"kube-system": "here"}), "was created on another cluster"),
        (WithoutQueues({"kube-system": "here"}), "has no local queue research/research"),
    ],
    ids=["provider", "state", "queue"],
)
def test_a_refusal_of_an_output_has_the_code_of_refusals(
    monkeypatch: pytest.MonkeyPatch, engine: Echo, message: str
) -> None:
    """The program reports the code where it raises: the engine runs these functions after the program."""
    program = make_program(TRAINING, INPUTS)
    with exit_code_file() as file:
        monkeypatch.setenv(EXIT_CODE_VARIABLE, str(file))
        with pytest.raises(pulumi.RunError, match=message):
            record(lambda: assemble(program) and None, program.settings.stack, engine)
        assert read_exit_code(file) == ExitCode.REFUSED


def test_without_a_refusal_no_code_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The file stays empty."""
    file = tmp_path / "code"
    file.touch()
    monkeypatch.setenv(EXIT_CODE_VARIABLE, str(file))
    program = make_program(TRAINING, INPUTS)
    record(lambda: assemble(program) and None, program.settings.stack, WithQueues({"kube-system": "here"}))
    assert file.read_text(encoding="ascii") == ""

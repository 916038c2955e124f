"""A sweep's files become its space and its sets, or an error with all faults, with file and line."""

from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.make import make_space
from trainstack.settings.errors import SettingsError, SettingsFinding
from trainstack.settings.loading.sweep_files import list_sweeps, load_space, read_sets
from trainstack.settings.search_space.constraints import ConstraintError, Value, is_satisfied, parameter_names
from trainstack.settings.search_space.hyperparams import (
    format_sets,
    number_sets,
    parse_space_digest,
    set_id,
    space_digest,
)
from trainstack.settings.search_space.space import FloatRange, Objective, Parameter
from trainstack.settings.search_space.space_values import contains, discrete_values
from trainstack.settings.search_space.templates import fill_template

SPACE = """\
method: grid
parameters:
  batch_size: {values: [32, 64]}
  lr: {float: {low: 0.1, high: 0.3, step: 0.1}}
objective: {metric: val_accuracy, direction: maximize}
args: ["--batch-size=${parameters.batch_size}", "--lr=${parameters.lr}"]
"""


def make_sweep_folder(root: Path, text: str) -> Path:
    """Write a project with the sweep `s`, whose space is this text."""
    (root / "sweeps/s").mkdir(parents=True)
    (root / "sweeps/s/space.yaml").write_text(dedent(text), encoding="utf-8")
    return root


def faults(root: Path, text: str) -> list[str]:
    """Return the faults of a space."""
    with pytest.raises(SettingsError) as error:
        load_space(make_sweep_folder(root, text), "s")
    return [str(finding).removeprefix("sweeps/s/space.yaml:") for finding in error.value.findings]


def test_a_space_loads_with_its_places(tmp_path: Path) -> None:
    """Values keep their types: 32 is an integer, 0.1 is not."""
    loaded = load_space(make_sweep_folder(tmp_path, SPACE), "s")
    assert loaded.space == make_space(
        parameters={
            "batch_size": Parameter(values=(32, 64)),
            "lr": Parameter(float_range=FloatRange(low=0.1, high=0.3, step=0.1)),
        },
        args=("--batch-size=${parameters.batch_size}", "--lr=${parameters.lr}"),
    )
    assert str(loaded.place_of("parameters.lr.float.high")) == "sweeps/s/space.yaml:4"
    assert list_sweeps(tmp_path) == ("s",)


def test_the_error_about_a_missing_space_lists_the_others(tmp_path: Path) -> None:
    """It also names the missing file."""
    make_sweep_folder(tmp_path, SPACE)
    with pytest.raises(SettingsError) as error:
        load_space(tmp_path, "z")
    assert str(error.value) == (
        "sweep 'z' has 1 fault:\n  sweeps/z/space.yaml: the file does not exist; create it, or use an existing sweep: "
        "valid names: s"
    )


ONE = """\
method: {method}
parameters:
  x: {x}
  o: {{values: [sgd, adam]}}
objective: {{metric: val_loss, direction: minimize}}
args: ["--x=${{parameters.x}}", "--o=${{parameters.o}}"]
"""


@pytest.mark.parametrize(
    ("x", "fault"),
    [
        ("{}", "x: has no values; set exactly one of values, categorical, int, float, uniform, logUniform, "),
        ("{values: [1], int: {low: 1, high: 2}}", "x: sets values and int; set exactly one of values, "),
        ("{values: []}", "x.values: must have at least 1 element"),
        ("{values: [1, 2, 1]}", "x: has a duplicate value; keep one"),
        ("{values: [[1]]}", "x.values[0]: is not a scalar; write a number, a string, true or false"),
        ("{values: [null]}", "x.values[0]: is not a scalar; write a number, a string, true or false"),
        ("{values: [1e999]}", "x.values[0]: is not a scalar; write a number, a string, true or false"),
        (
            "{values: [9223372036854775808]}",
            "x.values[0]: is not a 64-bit integer; write a string, or an integer from -9223372036854775808 to 922",
        ),
        (
            "{int: {low: 1, high: 9223372036854775808}}",
            "x.int.high: must be at most 9223372036854775807 (value 9223372036854775808); lower it",
        ),
        ("{int: {low: -9e999, high: 1}}", "x.int.low: must be an integer (value -9e999); write an integer"),
        ("{uniform: {low: 0, high: 1e999}}", "x.uniform.high: must be a finite number (value 1e999); write a finite"),
        ("{values: [1], when: {o: []}}", "x.when.o: must have at least 1 element"),
        ("{value: [1]}", "x: unknown key value; did you mean values?"),
        ("{int: {low: 2, high: 1}}", "x.int: high is 1, below low 2; raise high"),
        ("{int: {low: 1.5, high: 2}}", "x.int.low: must be an integer (value 1.5); write an integer"),
        ("{int: {low: 1}}", "x.int.high: is missing; add `high:`"),
        ("{int: {low: 1, high: 9, step: 0}}", "x.int.step: must be at least 1 (value 0); raise it"),
        ("{int: {low: 0, high: 9, log: true}}", "x.int: low must be above 0 for a logarithm; raise it"),
        ("{int: {low: 1, high: 9, log: true, step: 2}}", "x.int: log and step exclude each other; leave one out"),
        ("{float: {low: 1, high: a}}", 'x.float.high: must be a number (value "a"); write a number'),
        ("{float: {low: 1, high: 2, step: 0}}", "x.float.step: must be above 0 (value 0); raise it"),
        ("{logUniform: {low: 0, high: 1}}", "x: low must be above 0 for a logarithm; raise it"),
        ("{logNormal: {mean: 0, std: 1, low: -1}}", "x: low must be above 0 for a logarithm; raise it"),
        (
            "{logNormal: {mean: 800, std: 1}}",
            "x: exceeds the range of floating-point numbers; lower mean or std, which are of the logarithm",
        ),
        (
            "{uniform: {low: -1e308, high: 1e308}}",
            "x.uniform: high minus low exceeds the range of floating-point numbers; raise low",
        ),
        (
            "{float: {low: -1e308, high: 1e308}}",
            "x.float: high minus low exceeds the range of floating-point numbers; raise low",
        ),
        ("{normal: {mean: 1.5e+308, std: 1}}", "x: exceeds the range of floating-point numbers; lower mean or std"),
        (
            "{normal: {mean: 0, std: 2e307, low: 0, high: 1}}",
            "x: exceeds the range of floating-point numbers; lower mean or std",
        ),
        ("{normal: {mean: 0, std: 0}}", "x.normal.std: must be above 0 (value 0); raise it"),
        ("{normal: {mean: 0, std: 1, low: 2, high: 1}}", "x.normal: high is 1.0, below low 2.0; raise high"),
        (
            "{float: {low: 1, high: 2}}",
            "x: a grid requires discrete values; set values, or a range with step and without log",
        ),
        ("{values: [1], when: {p: [1]}}", "x.when.p: there is no parameter p; valid names: o, x"),
        ("{values: [1], when: {o: [sgd, rms]}}", "x.when.o: rms is not a value of o; write some of sgd, adam"),
        ("{values: [1], when: {x: [1]}}", "x.when: the conditions form a cycle: x needs x; remove one condition"),
        ("{int: {low: 1, high: 100000000000}}", None),
    ],
)
def test_an_invalid_parameter_is_refused(tmp_path: Path, x: str, fault: str | None) -> None:
    """The fault has the line, the value and the remedy."""
    (message,) = faults(tmp_path, ONE.format(method="grid", x=x))
    if fault is None:
        fault = "parameters: form a grid of 200000000000 points, but a sweep has at most 10000 sets; remove values"
        assert message.startswith(f"2: {fault}")
    else:
        assert message.startswith(f"3: parameters.{fault}")


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        (
            "method: grids",
            '1: method: is not supported (value "grids"); write grid, random, sobol, halton or list',
        ),
        ("method: random", "1: method: method random requires trials; add `trials:`"),
        ("method: list", "1: method: method list has no sets; list them under `sets:`, or use another method"),
        ("fields: {status.x: a}", '7: fields["status.x"]: the key status.x has an invalid format'),
        ("fields: {spec.x: '${parameters.l}'}", '7: fields["spec.x"]: there is no parameter l; did you mean lr?'),
        ("trials: 3", "7: trials: a grid has one trial for each point; leave it out"),
        ("seed: -1", "7: seed: must be at least 0 (value -1); raise it"),
        ("constraints: [lr <]", "7: constraints[0]: 'lr <' is not a comparison; write a comparison, such as"),
        ("constraints: [lr + 1]", "7: constraints[0]: 'lr + 1' is not a comparison; write a comparison, such as"),
        (
            "constraints: [open(lr) > 1]",
            "7: constraints[0]: 'open(lr) > 1' contains 'open(lr)', which is not supported; write",
        ),
        ("constraints: [lr < rate]", "7: constraints[0]: there is no parameter rate; valid names: batch_size, lr"),
        ("sets: [{batch_size: 32}]", "7: sets[0]: lacks lr; add a value for each"),
        (
            "sets: [{batch_size: 33, lr: 0.1}]",
            "7: sets[0].batch_size: 33 is not a value of batch_size; write one of 32, 64",
        ),
        (
            "sets: [{batch_size: 32, lr: 0.15}]",
            "7: sets[0].lr: 0.15 is not a value of lr; write a value in its range and step",
        ),
        (
            "sets: [{batch_size: 32, lr: 0.1, m: 1}]",
            "7: sets[0].m: there is no parameter m; valid names: batch_size, lr",
        ),
        (
            "objective: {metric: val_loss}",
            "5: objective.direction: is missing; add `direction:` (minimize or maximize)",
        ),
        (
            "objective: {metric: test_loss, direction: minimize}",
            "5: objective.metric: test_loss is a metric of the test data, which must not be used to select a set",
        ),
        (
            "objective: {metric: test/acc, direction: maximize}",
            "5: objective.metric: test/acc is a metric of the test data, which must not be used to select a set",
        ),
        (
            "objective: {metric: acc, direction: maximize, metricsFormat: 'acc=([0-9.]+)'}",
            "5: objective.metricsFormat: has no group (?P<value>…); write one such as 'accuracy=(?P<value>[0-9.]+)'",
        ),
        (
            "objective: {metric: acc, direction: maximize, metricsFormat: '(?P<value>[0-9]+)(?<=1)'}",
            "5: objective.metricsFormat: is not a regular expression of RE2: invalid perl operator: (?<",
        ),
        (
            "objective: {metric: acc, direction: maximize, metricsFormat: '(?P<value>.)(?P<loss>.)'}",
            "5: objective.metricsFormat: has an unknown group: loss; write one such as",
        ),
        (
            "objective: {metric: acc, direction: maximize, metricsFormat: '(?P<value>((a{99}){99}){9})'}",
            "5: objective.metricsFormat: is not a regular expression of RE2: ",
        ),
        (
            "objective: {metric: acc, direction: maximize, target: 0.9, metricsFormat: '(?P<value>.)'}",
            "5: objective.metricsFormat: the pod compares the target with metrics.jsonl, not with the log;",
        ),
        (
            "objective: {metric: val_loss, direction: minimize, epoch: 0.5}",
            "5: objective.epoch: is not an epoch; write best, last or a number",
        ),
        (
            'args: ["--lr=${parameters.lr}"]',
            (
                "3: parameters.batch_size: is not used in args, env or fields, so it has no effect; use "
                "${parameters.batch_size} in args or env, or set file to the program's path of hyperparams.yml"
            ),
        ),
        ("env: {LR: '${parameters.rate}'}", "7: env.LR: there is no parameter rate; valid names: batch_size, lr"),
        ("env: {LR: '${parameters.lr'}", "7: env.LR: ${parameters.lr is not a parameter; write ${parameters.<name>}"),
        ("env: {LR: '${parameters}'}", "7: env.LR: ${parameters} is not a parameter; write ${parameters.<name>}"),
        (
            "env: {LR: '${parameter.lr}'}",
            "7: env.LR: ${parameter.lr} is not a parameter; write ${parameters.<name>}",
        ),
        ("env: {LR: $(HOME)}", "7: env.LR: $(…) and $$ are not supported, since Kubernetes expands them; write the"),
        (
            "env: {LR: '$$5'}",
            "7: env.LR: $(…) and $$ are not supported, since Kubernetes expands them; write the value",
        ),
        (
            "env: {A=B: a}",
            "7: env[\"A=B\"]: is not a valid name of an environment variable; use letters, digits, '_', '-' and '.'",
        ),
        *(
            (f"env: {{{name}: a}}", f"7: env.{name}: {name} is reserved, and set for every trial; choose another name")
            for name in ("JOB_ID", "RANK", "WORLD_SIZE", "PET_NNODES", "TRAINSTACK_RECORD", "TRAINSTACK_DATA_TIMEOUT")
        ),
        ("file: hyperparams.yml", '7: file: has an invalid format (value "hyperparams.yml"); write an absolute path'),
        ("sweep: s", "7: unknown key sweep; did you mean seed?"),
    ],
)
def test_inconsistent_values_are_refused(tmp_path: Path, edit: str, fault: str) -> None:
    """The fault has the line, and the nearest valid name."""
    key = edit.partition(":")[0]
    lines = [edit if line.startswith(f"{key}:") else line for line in SPACE.splitlines()]
    text = "\n".join([*lines, *([] if edit in lines else [edit])]) + "\n"
    assert [message[: len(fault)] for message in faults(tmp_path, text)] == [fault]


def test_a_separate_argument_of_a_conditional_parameter_is_refused(tmp_path: Path) -> None:
    """It would be left out, but the argument before it would not."""
    text = """\
    method: grid
    parameters:
      o: {values: [sgd, adam]}
      m: {values: [0.9], when: {o: [sgd]}}
    objective: {metric: val_loss, direction: minimize}
    args: [--o, "${parameters.o}", --m, "${parameters.m}"]
    """
    assert faults(tmp_path, text) == [
        (
            "6: args[3]: is left out of sets without m, but the argument before it is not; write both as one "
            "argument, such as --m=${parameters.m}"
        )
    ]


WORDS = """\
method: grid
parameters:
  word: {{categorical: [plain, {word}]}}
  other: {{values: [1, 2]}}
objective: {{metric: val_loss, direction: minimize}}
{place}
"""


@pytest.mark.parametrize(
    ("word", "template", "fault"),
    [
        ("$(HOME)", "--word=${parameters.word}", "$(HOME)"),
        ("a$$b", "--word=${parameters.word}", "a$$b"),
        ("$TRAINSTACK_RESUME", "--word=${parameters.word}", "$TRAINSTACK_RESUME"),
        ("${TRAINSTACK_RESUME}", "--word=${parameters.word}", "${TRAINSTACK_RESUME}"),
        ("TRAINSTACK_RESUME", "$TRAINSTACK_OUTPUT/$${parameters.word}", "TRAINSTACK_RESUME"),
        ("(HOME)", "--word=$${parameters.word}", "(HOME)"),
        ("a$", "--word=${parameters.word}(b)", "a$"),
        ("a$", "${parameters.word}${parameters.other}", "a$"),
        ("^a$", "--word=${parameters.word},${parameters.other}", None),
        ("$HOME ${x} (a)", "--word=${parameters.word}", None),
        ("5", "--price=$${parameters.word}", None),
        ("x", "--to=$TRAINSTACK_OUTPUT/${parameters.word}", None),
    ],
)
def test_a_value_that_would_be_expanded_is_refused(tmp_path: Path, word: str, template: str, fault: str | None) -> None:
    """Kubernetes expands `$(NAME)` and `$$`, and the wrapper its own variables. A program that reads the file gets the
    unchanged value."""
    used = "${parameters.other}"
    for place, where, replaced in (
        (f'args: ["{template}", "{used}"]', "args[0]", "$(…), $$ and $TRAINSTACK_…"),
        (f'env: {{WORD: "{template}", OTHER: "{used}"}}', "env.WORD", "$(…) and $$"),
    ):
        text = WORDS.format(word=f'"{word}"', place=place)
        root = tmp_path / where
        if fault is None or ("TRAINSTACK_" in word and where == "env.WORD"):
            load_space(make_sweep_folder(root, text), "s")
        else:
            assert faults(root, text) == [
                (
                    f"3: parameters.word.categorical[1]: {fault} would be changed in {where}, where {replaced} are "
                    "expanded; write it without them, or set file to the program's path of hyperparams.yml"
                )
            ]
    text = WORDS.format(word=f'"{word}"', place="file: /sets.yml")
    load_space(make_sweep_folder(tmp_path / "file", text), "s")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("--lr=${parameters.lr}", "--lr=1e-05"),
        ("${parameters.lr},${parameters.on}", "1e-05,true"),
        ("${HOME}/$TRAINSTACK_OUTPUT/${parameters.name}", "${HOME}/$TRAINSTACK_OUTPUT/a b"),
        ("--m=${parameters.m}", None),
        ("--fixed", "--fixed"),
    ],
)
def test_templates_are_filled(template: str, text: str | None) -> None:
    """Values have a form that programs can parse. Other text is kept; a template with a missing parameter is None."""
    assert fill_template(template, {"lr": 1e-05, "on": True, "name": "a b"}) == text


def test_constraints_have_python_semantics() -> None:
    """A set without a parameter satisfies the constraint; text and numbers cannot be compared."""
    assert parameter_names("a * 2 <= b and not (c == 'x' or c in ['y', 'z'])") == {"a", "b", "c"}
    assert is_satisfied("1 <= a < 3", {"a": 2})
    assert not is_satisfied("a % 2 == 1", {"a": 2})
    assert is_satisfied("a > b", {"a": 1})
    with pytest.raises(ConstraintError, match="cannot be evaluated for"):
        is_satisfied("a < 1", {"a": "x"})
    with pytest.raises(ConstraintError, match="cannot be evaluated for"):
        is_satisfied("a % 2 == 0", {"a": "50%"})


VALUES = st.one_of(
    st.booleans(),
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8),
    st.sampled_from(["no", "12e4", "0777", "null", "", "2024-01-01", "1:30", "True", "~", "- a", "1e-05"]),
)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True)


@given(st.lists(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4), min_size=1, max_size=3))
def test_the_file_can_be_read_by_the_product_and_by_programs(
    tmp_path_factory: pytest.TempPathFactory, sets: list[dict[str, Value]]
) -> None:
    """The strict parser and PyYAML read every value with its type."""
    root = tmp_path_factory.mktemp("sweep")
    written = number_sets(sets)
    text = format_sets("s", make_space(), written)
    (root / "sweeps/s").mkdir(parents=True)
    (root / "sweeps/s/hyperparams.yml").write_text(text, encoding="utf-8")
    findings: list[SettingsFinding] = []
    expansion, read = read_sets(root, "s", findings)
    assert (findings, read) == ([], text)
    assert expansion is not None
    assert repr(expansion.sets) == repr(written)
    assert repr([element["hyperparam_set"] for element in yaml.safe_load(text)]) == repr(sets)


def test_the_form_of_the_file() -> None:
    """The job with JOB_ID n uses element n - 1; the file also has numbers, ids and a comment."""
    space = make_space()
    assert format_sets(
        "s", space, number_sets([{"batch_size": 32, "lr": 1e-05}, {"batch_size": 64, "name": "no"}])
    ) == dedent(
        f"""\
        # Generated from space.yaml by `trainstack sweep expand s`. Edit space.yaml instead.
        # space: sha256:{space_digest(space)}
        - number: 1
          id: "8a1a5d1ad9"
          hyperparam_set:
            batch_size: 32
            lr: 1.0e-05
        - number: 2
          id: "e879bc4588"
          hyperparam_set:
            batch_size: 64
            name: "no"
        """
    )


def test_an_id_is_derived_from_the_content() -> None:
    """The order does not matter; values of different types have different ids."""
    assert set_id({"a": 1, "b": "x"}) == set_id({"b": "x", "a": 1})
    assert len({set_id({"a": value}) for value in (1, 1.0, True, "1")}) == 4


def test_the_digest_has_all_values_that_the_sets_depend_on() -> None:
    """Sets do not depend on objective, arguments and file."""
    space = make_space()
    other = Objective(metric="val_loss", direction="minimize")
    same = make_space(objective=other, args=(), env={"B": "${parameters.batch_size}"}, file="/f")
    assert space_digest(same) == space_digest(space)
    assert space_digest(make_space(seed=1)) != space_digest(space)
    assert parse_space_digest("# space: sha256:" + "0" * 64 + "\n") == "0" * 64


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: 1\n", "1: the file is not a list"),
        ("# caf\udce9\n", "1: invalid YAML"),
        ("- {number: 1}\n", "1: was not written by `trainstack sweep expand`"),
        (
            "# space: sha256:" + "0" * 64 + "\n- {number: 0, id: '0123456789', hyperparam_set: {}}\n",
            "2: was not written",
        ),
        ("- [", "2: invalid YAML"),
    ],
)
def test_the_fault_of_a_broken_file_has_the_command_that_repairs_it(tmp_path: Path, text: str, fault: str) -> None:
    """The file is generated and not edited by hand."""
    make_sweep_folder(tmp_path, SPACE)
    (tmp_path / "sweeps/s/hyperparams.yml").write_text(text, encoding="utf-8", errors="surrogateescape")
    findings: list[SettingsFinding] = []
    assert read_sets(tmp_path, "s", findings)[0] is None
    assert str(findings[0]).startswith(f"sweeps/s/hyperparams.yml:{fault}")
    assert {finding.remedy for finding in findings} == {"generate it with `trainstack sweep expand s`"}


def test_points_of_a_range_are_decimals() -> None:
    """0.1 to 0.3 in tenths are three points, none of them 0.30000000000000004."""
    tenths = Parameter(float_range=FloatRange(low=0.1, high=0.35, step=0.1))
    assert discrete_values(tenths) == [0.1, 0.2, 0.3]
    assert [contains(tenths, value) for value in (0.3, 0.35, 0.4, 0.1, 0.0)] == [True, False, False, True, False]

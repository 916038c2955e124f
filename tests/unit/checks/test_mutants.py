"""Each rule is needed, and each of its conditions: broken, one of the rules' own cases notices."""

import inspect
from collections.abc import Iterator
from functools import cache, partial
from itertools import islice
from types import FunctionType, ModuleType
from typing import Any

import pytest

from tests.unit.checks import (
    test_against_cluster,
    test_failing_rules,
    test_likely_mistakes,
    test_live_verdicts,
    test_loader_rules,
    test_preflight,
    test_published_passphrase,
    test_silences,
    test_sweep_rules,
)
from tests.unit.checks.admission import test_node_capacity
from tests.unit.checks.environment_cases import every_case
from tests.unit.checks.mutants import Judge, functions, limited, mutants, noticed_by
from tests.unit.checks.node_cases import every_live_case
from tests.unit.checks.test_published_passphrase import OTHER, PUBLISHED
from trainstack.kueue import node_capacity
from trainstack.preflight import against_cluster, preflight, silences, versions
from trainstack.preflight.live_rules import nodes, platform, queueing, registry, secrets, storage
from trainstack.preflight.rule import Check
from trainstack.preflight.rules import (
    admission,
    dependencies,
    files,
    images,
    likely_mistakes,
    loaders,
    multikueue,
    names,
    namespaces,
    operators,
    pod_patches,
    pools,
    queues,
    references,
    resources,
    sweeps,
    tenant,
    volumes,
)

MODULES = (
    *(
        references,
        dependencies,
        queues,
        multikueue,
        pools,
        admission,
        operators,
        volumes,
        names,
        files,
        images,
        namespaces,
        pod_patches,
        tenant,
        sweeps,
        loaders,
        resources,
        likely_mistakes,
    ),
    *(platform, storage, queueing, nodes, registry, secrets),
    *(silences, versions, node_capacity),
)
TESTS = (
    *(test_preflight, test_against_cluster, test_live_verdicts),
    *(test_silences, test_likely_mistakes, test_node_capacity, test_sweep_rules, test_loader_rules, test_failing_rules),
    test_published_passphrase,
)
"""Tests of rules beside their cases."""
RECENT: dict[str, list[Judge]] = {}
"""By module: the judges that noticed something in it, the last one first."""
MOST_RECENT = 4
RULES: dict[str, Check[Any]] = {**preflight.RULES, **against_cluster.RULES}
FOUND_BY = {check.find for check in RULES.values()}


@cache
def all_cases() -> tuple[list[tuple[str, Judge]], list[tuple[str, Judge]]]:
    """The rules' cases with the rule of each: those of files, and those of clusters."""
    files: list[tuple[str, Judge]] = [
        (id_, partial(test_preflight.test_a_fault_is_found_by_its_rule_alone, id_, case)) for id_, case in every_case()
    ]
    live: list[tuple[str, Judge]] = [
        (id_, partial(test_against_cluster.test_a_fault_is_found_by_its_rule_alone, id_, case))
        for id_, case in every_live_case()
    ]
    return files, live


def judges(function: FunctionType) -> list[Judge]:
    """The rules' cases and the tests of rules that need nothing given, in the order in which they are likely to notice.

    First those of the function itself and of its module, by their names, then tests, then the cases of other rules.
    """
    files, live = all_cases()
    cases = [*([] if function.__module__.startswith("trainstack.preflight.live_rules") else files), *live]
    name, module = function.__name__.replace("_", "-"), function.__module__
    own = module.rpartition(".")[2].removesuffix("s")
    subjects = ("test_node_capacity", "node") if module == node_capacity.__name__ else (own,)

    def unlikely(judged: tuple[str, Judge]) -> tuple[bool, ...]:
        id_, _ = judged
        return (
            id_ != name,
            id_ not in RULES or RULES[id_].find.__module__ != module,
            not any(subject in id_ for subject in subjects),
            id_ in of_rules,
        )

    of_rules = {id_ for id_, _ in cases}
    tests: list[tuple[str, Judge]] = [(f"{each.__module__}.{each.__name__}", each) for each in whole_tests(TESTS)]
    return [judge for _, judge in sorted([*cases, *tests], key=unlikely)]


@cache
def whole_tests(modules: tuple[ModuleType, ...]) -> list[FunctionType]:
    """The tests of these modules that take no argument."""
    found = [each for module in modules for each in functions(module) if each.__name__.startswith("test_")]
    return [each for each in found if not inspect.signature(each).parameters]


@pytest.fixture(autouse=True, scope="module")
def known_salts() -> Iterator[None]:
    """Decide by a table whose passphrase a salt is: to derive a key takes longer than one judge may."""
    with pytest.MonkeyPatch.context() as changes:
        changes.setattr(files, "protects", {PUBLISHED: True, OTHER: False}.__getitem__)
        yield


@pytest.mark.parametrize("share", [pytest.param(3, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "function",
    [pytest.param(each, id=f"{each.__module__}.{each.__name__}") for module in MODULES for each in functions(module)],
)
def test_whatever_breaks_a_rule_is_noticed(function: FunctionType, share: int) -> None:
    """A rule that finds nothing, or a condition of it turned around, makes a case fail; one of `share` is tried."""
    # The order decides nothing but the time it takes: the own cases of a rule come first, else what noticed the last
    # one of this module.
    own = [] if function in FOUND_BY else RECENT.get(function.__module__, ())
    judging = [*own, *judges(function)]
    survivors = []
    for mutant in islice(mutants(function), 0, None, share):
        noticed = noticed_by(mutant, judging)
        if noticed is None:
            survivors.append(str(mutant))
        else:
            judging.remove(noticed)
            judging.insert(0, noticed)
            RECENT[function.__module__] = judging[:MOST_RECENT]
    assert not survivors, "\n".join(survivors)


def test_whole_rules_are_not_taken_for_broken_ones() -> None:
    """What notices a broken rule passes while it is whole, in the time that it may take."""
    for judge in judges(functions(pools)[0]):
        with limited():
            judge()


def test_every_rule_is_broken() -> None:
    """None stands in a module that is passed over."""
    broken = {each for module in MODULES for each in functions(module)}
    assert broken >= FOUND_BY

"""Each rule and each of its conditions is tested: a case of the rules fails if one is mutated."""

import inspect
from collections.abc import Iterator
from functools import cache, partial
from itertools import islice
from types import FunctionType, ModuleType
from typing import Any

import pytest

from tests.unit.kueue import test_node_capacity
from tests.unit.objects import test_immutable_fields
from tests.unit.preflight import (
    test_cluster_checks,
    test_failing_rules,
    test_file_checks,
    test_live_verdicts,
    test_silences,
)
from tests.unit.preflight.environment_cases import every_case
from tests.unit.preflight.mutants import Judge, functions, limited, mutants, noticed_by
from tests.unit.preflight.node_cases import every_live_case
from tests.unit.preflight.rules import test_likely_mistakes, test_programs, test_published_passphrase, test_sizes
from tests.unit.preflight.rules import test_loaders as test_loader_rules
from tests.unit.preflight.rules import test_objects as test_object_rules
from tests.unit.preflight.rules import test_sweeps as test_sweep_rules
from tests.unit.preflight.rules.test_published_passphrase import OTHER, PUBLISHED
from trainstack.kueue import node_capacity
from trainstack.preflight import cluster_checks, file_checks, silences, version_clashes
from trainstack.preflight.live_rules import (
    image_registries,
    limit_ranges,
    nodes,
    platform,
    queueing,
    resource_quotas,
    runtime_classes,
    secrets,
    storage,
    training_runtimes,
    workers,
)
from trainstack.preflight.rule import Check
from trainstack.preflight.rules import (
    admission,
    credentials,
    dependencies,
    files,
    images,
    likely_mistakes,
    loaders,
    manifests,
    multikueue,
    names,
    namespaces,
    objects,
    operators,
    pod_patches,
    pod_resources,
    pools,
    programs,
    queues,
    references,
    resources,
    sizes,
    sweeps,
    tenant,
    trainjobs,
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
        trainjobs,
        volumes,
        names,
        files,
        images,
        namespaces,
        manifests,
        objects,
        pod_patches,
        tenant,
        sweeps,
        loaders,
        resources,
        pod_resources,
        programs,
        sizes,
        credentials,
        likely_mistakes,
    ),
    *(
        platform,
        storage,
        queueing,
        limit_ranges,
        resource_quotas,
        runtime_classes,
        training_runtimes,
        nodes,
        image_registries,
    ),
    *(secrets, workers),
    *(silences, version_clashes, node_capacity),
)
TESTS = (
    *(test_file_checks, test_cluster_checks, test_live_verdicts),
    *(test_silences, test_likely_mistakes, test_node_capacity, test_sweep_rules, test_loader_rules, test_failing_rules),
    test_immutable_fields,
    test_published_passphrase,
    test_object_rules,
    test_programs,
    test_sizes,
)
"""Tests of rules in addition to their cases."""
RECENT: dict[str, list[Judge]] = {}
"""The judges that noticed a mutant of a module, the last one first."""
MOST_RECENT = 4
RULES: dict[str, Check[Any]] = {**file_checks.RULES, **cluster_checks.RULES}
FOUND_BY = {check.find for check in RULES.values()}


@cache
def all_cases() -> tuple[list[tuple[str, Judge]], list[tuple[str, Judge]]]:
    """Return the rules' cases with their rules: those of files, and those of clusters."""
    files: list[tuple[str, Judge]] = [
        (id_, partial(test_file_checks.test_a_fault_is_found_by_its_rule_alone, id_, case))
        for id_, case in every_case()
    ]
    live: list[tuple[str, Judge]] = [
        (id_, partial(test_cluster_checks.test_a_fault_is_found_by_its_rule_alone, id_, case))
        for id_, case in every_live_case()
    ]
    return files, live


def judges(function: FunctionType) -> list[Judge]:
    """Return the rules' cases and the tests without parameters, in the order in which they are likely to notice.

    The cases of the function and of its module are first, by name, then tests, then the cases of other rules.
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
    tests: list[tuple[str, Judge]] = [
        (f"{test.__module__}.{test.__name__}", test) for test in unparametrized_tests(TESTS)
    ]
    return [judge for _, judge in sorted([*cases, *tests], key=unlikely)]


@cache
def unparametrized_tests(modules: tuple[ModuleType, ...]) -> list[FunctionType]:
    """Return the tests of these modules that have no parameters."""
    tests = [function for module in modules for function in functions(module) if function.__name__.startswith("test_")]
    return [test for test in tests if not inspect.signature(test).parameters]


@pytest.fixture(autouse=True, scope="module")
def known_salts() -> Iterator[None]:
    """Look the passphrase of a salt up in a table: the derivation of a key takes longer than a judge may."""
    with pytest.MonkeyPatch.context() as changes:
        changes.setattr(files, "uses_published_passphrase", {PUBLISHED: True, OTHER: False}.__getitem__)
        yield


SHARES = pytest.mark.parametrize(
    "share", [pytest.param(6, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)]
)


@SHARES
@pytest.mark.parametrize(
    "function",
    [
        pytest.param(function, id=f"{function.__module__}.{function.__name__}")
        for module in MODULES
        for function in functions(module)
    ],
)
def test_each_mutant_of_a_rule_is_noticed(function: FunctionType, share: int) -> None:
    """A case fails for each mutant: a rule that finds nothing, or has a negated condition. One of `share` is tried."""
    # The order affects only the time: first the cases of the rule, or the judges that noticed the last mutants of this
    # module.
    recent = [] if function in FOUND_BY else RECENT.get(function.__module__, ())
    ordered = [*recent, *judges(function)]
    survivors = []
    for mutant in islice(mutants(function), 0, None, share):
        noticed = noticed_by(mutant, ordered)
        if noticed is None:
            survivors.append(str(mutant))
        else:
            ordered.remove(noticed)
            ordered.insert(0, noticed)
            RECENT[function.__module__] = ordered[:MOST_RECENT]
    assert not survivors, "\n".join(survivors)


@SHARES
def test_judges_pass_with_the_original_rules(share: int) -> None:
    """They also finish within their time limit."""
    for judge in judges(functions(pools)[0])[::share]:
        with limited():
            judge()


def test_every_rule_is_mutated() -> None:
    """MODULES lists the modules of all rules."""
    mutated = {function for module in MODULES for function in functions(module)}
    assert mutated >= FOUND_BY

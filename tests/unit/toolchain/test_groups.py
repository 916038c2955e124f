"""The sources of programs, and the conditions under which they count as built."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolchain.modules import Fixture, make_fixture
from trainstack.toolchain import go_modules, groups, python_locks
from trainstack.toolchain.places import GO_MODULES


@pytest.fixture
def greeter(tmp_path: Path) -> Fixture:
    """Provide a small group."""
    return make_fixture(tmp_path)


def key(fixture: Fixture, **changes: Any) -> str:
    """Return the fixture's key, with some of the group's fields changed."""
    group = replace(fixture.group, **changes)
    return groups.build_key(group, "go1.26.8", "linux-x86_64", fixture.modules)


def test_key_is_stable(greeter: Fixture) -> None:
    """The same input has the same key: an `ensure` finds an earlier build."""
    assert key(greeter) == key(greeter)


def test_key_changes_with_everything_that_decides_the_result(greeter: Fixture) -> None:
    """The input is sources, go.sum, linker flags, programs, scripts, Go and platform; texts for people do not count."""
    original = key(greeter)
    changed = {
        key(greeter, programs=(groups.GoProgram("other", "."),)),
        key(greeter, stamps=()),
        key(greeter, scripts=()),
        groups.build_key(greeter.group, "go1.26.9", "linux-x86_64", greeter.modules),
        groups.build_key(greeter.group, "go1.26.8", "linux-aarch64", greeter.modules),
    }
    main = greeter.modules / "greeter" / "main.go"
    main.write_text(main.read_text() + "\n")
    changed.add(key(greeter))
    greeter.go_sum.write_text(greeter.go_sum.read_text() + "\n")
    changed.add(key(greeter))
    assert original not in changed
    assert len(changed) == 7


def test_key_ignores_what_people_read(greeter: Fixture) -> None:
    """A better estimate of the duration causes no build."""
    assert key(greeter, seconds=999, purpose="something else") == key(greeter)


def test_kubernetes_programs_are_stamped_with_the_pinned_version() -> None:
    """kubectl refuses the server's version without the stamps."""
    version = go_modules.load(GO_MODULES / "cluster" / "go.mod").version("k8s.io/kubernetes")
    major, minor = version.removeprefix("v").split(".")[:2]
    for name in ("cluster", "kubectl"):
        flags = groups.link_flags(groups.GROUPS_BY_NAME[name])
        for package in ("component-base/version", "client-go/pkg/version"):
            assert f"-X k8s.io/{package}.gitVersion={version}" in flags
            assert f"-X k8s.io/{package}.gitMajor={major} -X k8s.io/{package}.gitMinor={minor}" in flags


def test_engine_and_sdk_are_the_same_release() -> None:
    """Their protocol changes with every release."""
    engine = go_modules.load(GO_MODULES / "engine" / "go.mod").version("github.com/pulumi/pulumi/pkg/v3")
    assert engine == f"v{python_locks.version('pulumi')}"


def test_provider_is_stamped_with_the_release_of_its_sdk() -> None:
    """The engine searches for the plugin of exactly the version of the installed SDK."""
    stamp = f"provider/v4/pkg/version.Version={python_locks.version('pulumi-kubernetes')}"
    assert groups.link_flags(groups.GROUPS_BY_NAME["provider"]).endswith(stamp)


def test_every_staging_module_is_replaced_by_the_one_of_the_same_kubernetes() -> None:
    """k8s.io/kubernetes requires its staging modules at v0.0.0: each must be of the same release."""
    module = go_modules.load(GO_MODULES / "cluster" / "go.mod")
    released = module.version("k8s.io/kubernetes").replace("v1.", "v0.", 1)
    assert {target.split()[1] for target in module.replace.values()} == {released}
    unreplaced = {path for path, version in module.require.items() if version == "v0.0.0"} - set(module.replace)
    assert unreplaced == set()


def test_every_module_has_hashes_for_its_requirements() -> None:
    """go.sum has a hash for each requirement of go.mod: no build fetches a module without one."""
    for folder in sorted({group.module for group in groups.GROUPS}):
        module = go_modules.load(GO_MODULES / folder / "go.mod")
        text = (GO_MODULES / folder / "go.sum").read_text() if module.require else ""
        known = {tuple(line.split()[:2]) for line in text.splitlines()}
        required = {
            tuple(module.replace[path].split()) if path in module.replace else (path, version)
            for path, version in module.require.items()
        }
        lacking = {(path, version) for path, version in required if (path, f"{version}/go.mod") not in known}
        assert lacking == set(), folder


def test_modules_outside_the_checksum_database_are_vouched_for() -> None:
    """The provider's own module is in no public database: only its hash in go.sum verifies it."""
    text = (GO_MODULES / "provider" / "go.sum").read_text()
    module = go_modules.load(GO_MODULES / "provider" / "go.mod")
    for path in ("github.com/pulumi/pulumi-kubernetes/provider/v4", "github.com/pulumi/cloud-ready-checks"):
        assert f"{path} {module.version(path)} h1:" in text


def test_programs_have_one_name_each() -> None:
    """`tools.program` finds a program by its name."""
    names = [program.name for group in groups.GROUPS for program in group.programs]
    assert len(names) == len(set(names))


def test_the_program_that_places_pods_is_of_the_kueue_that_the_cluster_runs() -> None:
    """`check --cluster` asks it about runs that exactly this release admits."""
    places = groups.GROUP_OF_PROGRAM["kueue-judge"]
    assert (places.name, places.for_tests) == (f"judge-{groups.DEFAULT_KUEUE_MINOR}", False)
    versions = {
        go_modules.load(GO_MODULES / folder / "go.mod").version("sigs.k8s.io/kueue")
        for folder in (places.module, "cluster")
    }
    assert len(versions) == 1


def test_go_names_a_program_after_the_last_element_that_is_no_version() -> None:
    """For example, etcd's main package, server/v3, is built as `server`."""
    assert groups.GoProgram("etcd", "go.etcd.io/etcd/server/v3").binary_name == "server"
    assert groups.GoProgram("kueue", "sigs.k8s.io/kueue/cmd/kueue").binary_name == "kueue"

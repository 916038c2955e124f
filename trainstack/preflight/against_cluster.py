"""What is wrong with an environment on the cluster that it is for, from a read of that cluster.

docs/checks.md has a section for each rule.
"""

from collections.abc import Mapping, Sequence

from trainstack.preflight import silences
from trainstack.preflight.finding import Checked, Finding
from trainstack.preflight.live_context import Live, LiveScene
from trainstack.preflight.live_rules import nodes, platform, queueing, registry, storage
from trainstack.preflight.rule import Check, Rule
from trainstack.preflight.rules import references
from trainstack.preflight.rules.references import namespace_unknown
from trainstack.preflight.runner import run_rules
from trainstack.settings.errors import Place
from trainstack.settings.model import Settings

RULES: dict[str, Check[LiveScene]] = {
    check.rule.id: check for group in (platform, storage, queueing, nodes, registry) for check in group.RULES
}
"""The rules by id, in the order of docs/checks.md."""
_OF_NAMES = {check.rule.id for check in references.RULES}

MANIFESTS_UNBUILT = Rule(
    id="manifests-unbuilt",
    severity="error",
    may_be=("unknown",),
    summary="The manifests of the environment cannot be built from its files, so no launch is sent as a dry run.",
    details="The finding is `unknown` if only operators' objects are missing: a release was not downloaded.",
    example="A ledger that exceeds the size of a ConfigMap, because a run has a megabyte of arguments.",
    remedy="Correct what the message describes.",
)
CLUSTER_UNREACHABLE = Rule(
    id="cluster-unreachable",
    severity="error",
    summary="The cluster could not be read, so only the rules over files were applied.",
    example="`cluster: {context: lba}` where the kubeconfig has the context `lab`.",
    remedy="Correct `cluster.context`, `KUBECONFIG` or the credentials, or start the cluster, as the message says.",
    silenceable=False,
)


def check(
    settings: Settings, live: Live, images: Mapping[str, str], places: Mapping[str, Place] | None = None
) -> list[Finding]:
    """Everything that the rules find, as `examine` does."""
    return examine(LiveScene(settings, live, images), places).findings


def examine(scene: LiveScene, places: Mapping[str, Place] | None = None, in_files: Sequence[Finding] = ()) -> Checked:
    """Apply the rules, and judge the runs by what the cluster holds now.

    `places` as for `preflight.preflight.examine`, whose findings are `in_files`: a name that the files show to be
    unknown is not reported again where the cluster does not have it either.
    """
    found, verdicts = run_rules(RULES, scene)
    known = {(each.id, each.path) for each in in_files if each.stops and each.id in _OF_NAMES}
    found = [each for each in found if (each.id, each.path) not in known]
    # Of a namespace, the finding in the files can be silenced.
    rules = [*(check.rule for check in RULES.values()), namespace_unknown.rule]
    silenced = scene.settings.checks.silenced
    return Checked(silences.settled(found, silenced, rules, places or {}, in_files), verdicts)

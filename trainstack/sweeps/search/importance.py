"""Which parameters matter: Optuna's conditional PED-ANOVA, which needs no other library.

It compares how a parameter is spread among the best trials with how it is among all. Source: Watanabe, Bansal and
Hutter, PED-ANOVA: Efficiently Quantifying Hyperparameter Importance in Arbitrary Subspaces, IJCAI 2023
(https://arxiv.org/abs/2304.10255), with its extension to conditional parameters that Optuna 5 has.
"""

import math

from trainstack.settings.search_space.space import Space
from trainstack.sweeps.search.ranking import Ranking

LEAST_TRIALS = 10
"""The minimum number of ranked trials for an estimate."""
_BEST_TRIALS = 5
"""The minimum number of best trials to compare with all, as Optuna recommends."""
_BEST_SHARE = 0.1


def best_trials(trials: int) -> int:
    """How many trials count as the best: a tenth, but at least `_BEST_TRIALS`."""
    return max(_BEST_TRIALS, math.ceil(_BEST_SHARE * trials))


def importance(space: Space, ranking: Ranking) -> dict[str, float]:
    """The share of each parameter, the greatest first; together 1.

    Empty with fewer than LEAST_TRIALS ranked trials, and where they all have one value, or one set. A parameter that is
    the same in all of them is left out.
    """
    ranked = ranking.ranked
    sets = [each.result.parameters for each in ranked]
    varied = [name for name in space.parameters if any(each.get(name) != sets[0].get(name) for each in sets)]
    if len(ranked) < LEAST_TRIALS or ranked[-1].place == 1 or not varied:
        return {}
    # Optuna takes a moment to load, and few commands need it.
    import optuna  # noqa: PLC0415

    from trainstack.sweeps.search.sampling import frozen_trial, quietly  # noqa: PLC0415

    quietly()
    study = optuna.create_study(direction=ranking.objective.direction)
    for each in ranked:
        given = {name: value for name, value in each.result.parameters.items() if name in varied}
        study.add_trial(frozen_trial(space, given, each.value))
    evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=best_trials(len(ranked)) / len(ranked))
    found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {name: float(share) for name, share in found.items()}

"""The importance of parameters by Optuna's conditional PED-ANOVA, which needs no other library.

It compares the distribution of a parameter among the best trials with that among all. Source: Watanabe, Bansal and
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
"""The share of ranked trials that count as the best."""


def best_trials(trials: int) -> int:
    """Return the number of trials that count as the best: a tenth, but at least `_BEST_TRIALS`."""
    return max(_BEST_TRIALS, math.ceil(_BEST_SHARE * trials))


def importance(space: Space, ranking: Ranking) -> dict[str, float]:
    """Return the share of each parameter, the greatest first; the shares add up to 1.

    {} for fewer than LEAST_TRIALS ranked trials, or if all of them have the same value or the same set. A parameter
    with the same value in all of them is omitted.
    """
    ranked = ranking.ranked
    sets = [ranked_trial.result.parameters for ranked_trial in ranked]
    varied = [
        name for name in space.parameters if any(set_values.get(name) != sets[0].get(name) for set_values in sets)
    ]
    if len(ranked) < LEAST_TRIALS or ranked[-1].place == 1 or not varied:
        return {}
    # Optuna takes a moment to load, and few commands need it.
    import optuna  # noqa: PLC0415

    from trainstack.sweeps.search.sampling import frozen_trial, silence_optuna  # noqa: PLC0415

    silence_optuna()
    study = optuna.create_study(direction=ranking.objective.direction)
    for ranked_trial in ranked:
        parameters = {name: value for name, value in ranked_trial.result.parameters.items() if name in varied}
        study.add_trial(frozen_trial(space, parameters, ranked_trial.value))
    evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=best_trials(len(ranked)) / len(ranked))
    shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {name: float(share) for name, share in shares.items()}

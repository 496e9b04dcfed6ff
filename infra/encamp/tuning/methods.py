"""The search method of each algorithm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.spec.tuning import Algorithm
from encamp.tuning.population import PopulationSearch
from encamp.tuning.simple import GridSearch, RandomSearch

if TYPE_CHECKING:
    from encamp.plan.study import StudyPlan
    from encamp.tuning.search import Search


def search_for(study: StudyPlan) -> Search:
    """Return the search of a study. It keeps nothing: two of one study say the same."""
    if study.algorithm is Algorithm.GRID_SEARCH:
        return GridSearch(study)
    if study.algorithm is Algorithm.POPULATION_BASED_TRAINING:
        return PopulationSearch(study)
    if study.algorithm is Algorithm.RANDOM_SEARCH:
        return RandomSearch(study)
    from encamp.tuning.bayesian import BayesianSearch  # noqa: PLC0415 - its libraries take a second to import

    return BayesianSearch(study)

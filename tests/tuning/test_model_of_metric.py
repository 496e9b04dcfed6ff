"""What the default search is made of: features, the Gaussian process, and the improvement it expects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import integrate, optimize
from scipy.stats import norm

from encamp.plan.study import ParameterPlan
from encamp.spec.tuning import ParameterScale, ParameterType
from encamp.tuning.acquisition import log_improvement
from encamp.tuning.bayesian import flattened
from encamp.tuning.encoding import Encoding
from encamp.tuning.space import values_at
from encamp.tuning.surrogate import Surrogate, _log_prior

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = pytest.mark.slow

RATE = ParameterPlan("rate", ParameterType.DOUBLE, 0.0, 1.0)
STEPS = ParameterPlan("steps", ParameterType.INTEGER, 1, 50, scale=ParameterScale.UNIT_LOG_SCALE)
BATCH = ParameterPlan("batch", ParameterType.DISCRETE, values=(16.0, 32.0, 64.0))
KIND = ParameterPlan("kind", ParameterType.CATEGORICAL, values=("a", "b", "c"))


def test_snapped_points_stay_where_they_are_and_keep_their_values() -> None:
    space = (RATE, STEPS, BATCH, KIND)
    encoding = Encoding(space)
    snapped = encoding.snapped(np.random.default_rng(1).random((200, 4)) * 1.2 - 0.1)
    assert np.array_equal(encoding.snapped(snapped), snapped)
    assert len({tuple(values_at(space, row)[name] for name in ("steps", "batch", "kind")) for row in snapped}) > 100
    assert encoding.points is None


def test_categories_are_equally_far_apart() -> None:
    rows = Encoding((KIND,)).features(np.array([[1 / 6], [3 / 6], [5 / 6]]))
    apart = np.linalg.norm(rows[:, np.newaxis] - rows, axis=2)
    assert apart == pytest.approx(1 - np.eye(3))


def test_many_categories_are_told_apart_by_few_features() -> None:
    many = ParameterPlan("kind", ParameterType.CATEGORICAL, values=tuple(f"v{index}" for index in range(100)))
    rows = Encoding((many,)).features(((np.arange(100) + 0.5) / 100)[:, np.newaxis])
    apart = np.linalg.norm(rows[:, np.newaxis] - rows, axis=2)
    assert rows.shape == (100, 12)
    assert apart[~np.eye(100, dtype=bool)].min() > 0.2


def test_few_points_are_all_known() -> None:
    encoding = Encoding((BATCH, KIND))
    assert encoding.points is not None
    assert len({tuple(values_at((BATCH, KIND), row).values()) for row in encoding.points}) == 9


@pytest.mark.parametrize("z", [3.0, 0.0, -0.99, -1.01, -5.0, -20.0])
def test_the_improvement_is_that_of_a_normal_distribution(z: float) -> None:
    def gain(above: float) -> float:
        return above * float(norm.pdf(above - z))

    expected, _ = integrate.quad(gain, 0, max(z, 0) + 12, epsabs=0, epsrel=1e-10)
    assert log_improvement(np.array([z]))[0] == pytest.approx(np.log(expected), rel=1e-6)


def test_the_improvement_never_vanishes() -> None:
    z = -np.logspace(-2, 6, 400)
    values = log_improvement(z)
    assert np.isfinite(values).all()
    assert (np.diff(values) < 0).all()


def test_the_priors_slope_is_its_own() -> None:
    theta = np.array([0.3, -0.7, 0.2, -4.0])

    def value(at: NDArray[np.float64]) -> float:
        return _log_prior(at)[0]

    slope = optimize.approx_fprime(theta, value)
    assert _log_prior(theta)[1] == pytest.approx(slope, rel=1e-4)


def test_the_model_knows_what_was_tried_and_what_was_not() -> None:
    points = np.linspace(0, 1, 12)[:, np.newaxis]
    losses = np.sin(6 * points[:, 0])
    model = Surrogate.fitted(points, (losses - losses.mean()) / losses.std())
    between = np.array([[0.409], [0.5909]])
    mean, deviation = model.predict(between)
    assert mean[:, 0] * losses.std() + losses.mean() == pytest.approx(np.sin(6 * between[:, 0]), abs=0.05)
    assert model.predict(points)[1].max() < 0.1
    assert model.predict(np.array([[2.0]]))[1][0] > 5 * deviation.max()


def test_noise_is_no_detail_to_be_followed() -> None:
    draw = np.random.default_rng(4)
    points = draw.random((40, 1))
    losses = points[:, 0] + draw.normal(0, 0.5, 40)
    model = Surrogate.fitted(points, (losses - losses.mean()) / losses.std())
    grid, _ = model.predict(np.linspace(0, 1, 50)[:, np.newaxis])
    assert np.abs(np.diff(grid[:, 0])).max() < 0.25


def test_what_runs_is_not_worth_trying_twice() -> None:
    points = np.array([[0.0], [0.1], [0.2], [0.8], [0.9], [1.0]])
    model = Surrogate.fitted(points, np.array([1.2, 0.9, 0.3, -0.4, -0.8, -1.2]))
    before = model.predict(np.array([[0.5]]))[1][0]
    imagined = model.imagined(np.array([[0.5]]), np.array([[-1.0, 0.0, 1.0]]))
    means, deviation = imagined.predict(np.array([[0.5]]))
    assert deviation[0] < before / 2
    assert means[0, 0] < means[0, 1] < means[0, 2]
    assert imagined.best().shape == (3,)
    assert model.predict(np.array([[0.5]]))[1][0] == before


def test_bad_losses_are_drawn_nearer_in_their_order() -> None:
    flat = flattened(np.array([1.0, 2.0, 3.0, 1e6]))
    assert (np.diff(flat) > 0).all()
    assert flat.mean() == pytest.approx(0)
    assert flat.std() == pytest.approx(1)
    assert (flat[3] - flat[2]) < 100 * (flat[2] - flat[1])


@pytest.mark.parametrize("losses", [[0.0, 1.7e308, -1.7e308], [1.6e308, 1.7e308], [0.0, 5e-324], [1.0, 1.0, 2.0]])
def test_no_metric_is_too_large_to_be_modelled(losses: list[float]) -> None:
    flat = flattened(np.array(losses))
    assert np.isfinite(flat).all()
    Surrogate.fitted(np.linspace(0, 1, len(losses))[:, np.newaxis], flat)

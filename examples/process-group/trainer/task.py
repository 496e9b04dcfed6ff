"""Train softmax regression on handwritten digits, data-parallel over a process group, with NumPy alone.

Each replica has its own share of the pictures, gradients are summed over all replicas before every step, and so all
hold the same weights. The master writes ``<job dir>/model.npz`` with weights [64, 10] and bias [10].
"""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from trainer.group import Group

PIXELS = 64
CLASSES = 10
#: Every fifth picture is kept for testing and never trained on.
TEST_EVERY = 5


def data(*, test: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pixels [n, 64] from 0 to 1 and labels [n] of the training or the test part."""
    digits = load_digits()
    chosen = (np.arange(len(digits.target)) % TEST_EVERY == 0) == test
    return digits.data[chosen] / 16.0, digits.target[chosen]


def probabilities(pixels: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Softmax [n, 10] of pictures [n, 64]."""
    scores = pixels @ weights + bias
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def accuracy(weights: np.ndarray, bias: np.ndarray) -> float:
    """Share of the test pictures that are read right, from 0 to 1."""
    pixels, labels = data(test=True)
    return float(np.mean(probabilities(pixels, weights, bias).argmax(axis=1) == labels))


def train(args: argparse.Namespace, group: Group) -> tuple[np.ndarray, np.ndarray]:
    """Weights [64, 10] and bias [10], the same on every replica."""
    pixels, labels = data(test=False)
    count = len(labels)
    pixels, labels = pixels[group.rank :: group.size], labels[group.rank :: group.size]
    wanted = np.eye(CLASSES)[labels]
    both = np.zeros([PIXELS + 1, CLASSES])
    for step in range(1, args.steps + 1):
        found = probabilities(pixels, both[:-1], both[-1])
        slope = (found - wanted) / count
        loss = -np.log(found[np.arange(len(labels)), labels]).sum(keepdims=True) / count
        total = group.sum(np.concatenate([(pixels.T @ slope).ravel(), slope.sum(axis=0), loss]))
        both -= args.learning_rate * total[:-1].reshape(both.shape)
        if step % 50 == 0:
            print(f"rank {group.rank}: step {step}  loss {total[-1]:.6f}", flush=True)
    return both[:-1], both[-1]


def save(job_dir: str, weights: np.ndarray, bias: np.ndarray) -> None:
    """Write ``model.npz`` to a folder or to Cloud Storage."""
    content = io.BytesIO()
    np.savez(content, weights=weights, bias=bias)
    path = f"{job_dir.rstrip('/')}/model.npz"
    if path.startswith("gs://"):
        from google.cloud import storage  # noqa: PLC0415 - a run on one's own machine does without

        bucket, _, name = path[len("gs://") :].partition("/")
        storage.Client().bucket(bucket).blob(name).upload_from_string(content.getvalue())
    else:
        Path(job_dir).mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content.getvalue())
    print(f"model written to {path}", flush=True)


def main() -> None:
    """Do this replica's part."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir", default="")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--learning-rate", type=float, default=1.0)
    parser.add_argument("--minimum-accuracy", type=float, default=0.0)
    args = parser.parse_args()
    group = Group()
    print(f"rank {group.rank} of {group.size}", flush=True)
    weights, bias = train(args, group)
    group.close()
    if group.rank == 0:
        if args.job_dir:
            save(args.job_dir, weights, bias)
        found = accuracy(weights, bias)
        print(f"test accuracy {found:.4f}", flush=True)
        if found < args.minimum_accuracy:
            sys.exit(f"test accuracy {found:.4f} is below {args.minimum_accuracy}")


if __name__ == "__main__":
    main()

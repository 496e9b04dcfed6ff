"""Train a digit classifier whose layers are split over the GPUs of one machine, with DTensor.

The devices form a mesh of two dimensions. Along ``model`` the layers are split: the first by its columns, the second by
its rows, so that no device holds the whole of either. Along ``batch`` the pictures are split. What must be summed
between devices follows from the layouts alone: the training step is written as for one device. This is what Mesh
TensorFlow was for, in TensorFlow itself.

Where TensorFlow sees no GPU, as many logical CPU devices as the job asked for GPUs stand for them. Writes
``<job dir>/model``, a SavedModel on one device: pixels [n, 64] in, class scores [n, 10] out.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys

# TensorFlow's own account of its start-up would hide the trainer's.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from tensorflow.experimental import dtensor

PIXELS = 64
CLASSES = 10
#: Every fifth picture is kept for testing and never trained on.
TEST_EVERY = 5


def data(*, test: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pixels [n, 64] from 0 to 1 and labels [n] of the training or the test part."""
    digits = load_digits()
    chosen = (np.arange(len(digits.target)) % TEST_EVERY == 0) == test
    return (digits.data[chosen] / 16.0).astype(np.float32), digits.target[chosen].astype(np.int64)


def make_mesh(model: int) -> dtensor.Mesh:
    """All GPUs, or their stand-ins, as a mesh [batch, model]."""
    kind, count = "GPU", len(tf.config.list_physical_devices("GPU"))
    if not count:
        job = json.loads(json.loads(os.environ.get("TF_CONFIG", "{}")).get("job", "{}"))
        kind, count = "CPU", int(job.get("master_config", {}).get("accelerator_config", {}).get("count", model))
    # DTensor wants a CPU device beside each GPU, for what lives on the host.
    (cpu, *_) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    dtensor.initialize_accelerator_system(kind)
    return dtensor.create_mesh([("batch", count // model), ("model", model)], device_type=kind)


def place(value: np.ndarray, mesh: dtensor.Mesh, *split: str) -> tf.Tensor:
    """A tensor on the mesh, each dimension split along the mesh dimension named, or whole on each device."""
    everywhere = dtensor.Layout.replicated(mesh, rank=value.ndim)
    return dtensor.relayout(dtensor.copy_to_mesh(tf.constant(value), everywhere), dtensor.Layout(list(split), mesh))


def network(weights: list[tf.Variable], pixels: tf.Tensor) -> tf.Tensor:
    """Scores [n, 10]."""
    first, first_bias, second, second_bias = weights
    return tf.nn.relu(pixels @ first + first_bias) @ second + second_bias


def train(args: argparse.Namespace) -> float:
    """Train and save; the share of the test part that is read right, from 0 to 1."""
    mesh, whole = make_mesh(args.model_devices), dtensor.UNSHARDED
    print(f"a mesh of {mesh.dim_size('batch')} x {mesh.dim_size('model')} devices [batch, model]", flush=True)
    start = np.random.default_rng(7)
    first = start.normal(0, (2 / PIXELS) ** 0.5, [PIXELS, args.hidden]).astype(np.float32)
    second = start.normal(0, (2 / args.hidden) ** 0.5, [args.hidden, CLASSES]).astype(np.float32)
    weights = [
        dtensor.DVariable(place(first, mesh, whole, "model")),
        dtensor.DVariable(place(np.zeros(args.hidden, np.float32), mesh, "model")),
        dtensor.DVariable(place(second, mesh, "model", whole)),
        dtensor.DVariable(place(np.zeros(CLASSES, np.float32), mesh, whole)),
    ]
    shapes = [list(part.shape) for part in dtensor.unpack(weights[0].read_value())]
    print(f"the first layer {list(first.shape)} lies on the devices as {shapes}", flush=True)

    @tf.function
    def step(pixels: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            scores = network(weights, pixels)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores))
        gradients = tape.gradient(loss, weights)
        for index, weight in enumerate(weights):
            weight.assign_sub(args.learning_rate * gradients[index])
        return loss

    pixels, labels = data(test=False)
    for epoch in range(1, args.epochs + 1):
        # Whole batches only, so that each splits evenly.
        order = start.permutation(len(labels))[: len(labels) // args.batch_size * args.batch_size]
        for batch in np.split(order, len(order) // args.batch_size):
            loss = step(place(pixels[batch], mesh, "batch", whole), place(labels[batch], mesh, "batch"))
        if epoch % 5 == 0 or epoch == args.epochs:
            print(f"epoch {epoch:3d}  loss {loss.numpy():.4f}", flush=True)
    return finish([gathered(weight, mesh) for weight in weights], args.job_dir)


def gathered(weight: dtensor.DVariable, mesh: dtensor.Mesh) -> tf.Variable:
    """The whole of a split weight as an ordinary variable."""
    everywhere = dtensor.relayout(weight.read_value(), dtensor.Layout.replicated(mesh, rank=weight.shape.rank))
    return tf.Variable(everywhere.numpy())


def finish(weights: list[tf.Variable], job_dir: str) -> float:
    """Write the model; the share of the test part that is read right."""
    model = tf.Module()
    model.weights = weights
    model.serve = tf.function(
        functools.partial(network, weights), input_signature=[tf.TensorSpec([None, PIXELS], tf.float32)]
    )
    if job_dir:
        tf.saved_model.save(model, f"{job_dir.rstrip('/')}/model", signatures={"serving_default": model.serve})
        print(f"model written to {job_dir}", flush=True)
    pixels, labels = data(test=True)
    return float(np.mean(np.argmax(model.serve(pixels).numpy(), axis=1) == labels))


def arguments() -> argparse.Namespace:
    """The options that the job file passes on."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir", default="")
    parser.add_argument("--model-devices", type=int, default=2, help="over how many devices the layers are split")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=0.5)
    parser.add_argument("--minimum-accuracy", type=float, default=0.0)
    return parser.parse_args()


if __name__ == "__main__":
    options = arguments()
    found = train(options)
    print(f"test accuracy {found:.4f}", flush=True)
    if found < options.minimum_accuracy:
        sys.exit(f"test accuracy {found:.4f} is below {options.minimum_accuracy}")

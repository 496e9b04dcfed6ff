"""Train a classifier whose weights lie on parameter servers, by workers that need not wait for each other.

- Parameter servers and workers run a TensorFlow server and block; they are stopped when the chief ends.
- The chief is the coordinator: it puts the variables on the parameter servers, hands steps to whichever worker is free,
  and writes a checkpoint to ``<job dir>/checkpoints`` after every few epochs. It goes on from the newest, if there is
  any. A worker that is taken away costs only its own step.
- The evaluator stands outside the cluster. It reads the checkpoints as they come and writes the accuracy of each to
  ``<job dir>/evaluation/<epoch>.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

# TensorFlow's own account of its start-up would hide the trainer's.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# What TensorFlow knows of an object in Cloud Storage it keeps for 5 s: too long for files that another replica writes.
os.environ.setdefault("GCS_STAT_CACHE_MAX_AGE", "0")
# A peer that is not up yet, or restarts, is waited for.
os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")

import tensorflow as tf

from trainer.network import Network, accuracy, data

PATIENCE_SECONDS = 120


def serve(resolver: tf.distribute.cluster_resolver.TFConfigClusterResolver) -> None:
    """A worker or parameter server: do what the chief asks, for as long as the job lives."""
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    )
    print(f"{resolver.task_type} {resolver.task_id}: serves at {server.target}", flush=True)
    server.join()


def score(args: argparse.Namespace) -> None:
    """The evaluator: the accuracy of every checkpoint, for as long as the job lives."""
    network, epoch = Network(args.hidden), tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(network=network, epoch=epoch)
    tf.io.gfile.makedirs(f"{args.job_dir}/evaluation")
    for path in tf.train.checkpoints_iterator(f"{args.job_dir}/checkpoints", min_interval_secs=0):
        checkpoint.restore(path).expect_partial()
        found = {"epoch": int(epoch), "accuracy": accuracy(network)}
        print(f"evaluator: epoch {found['epoch']}  test accuracy {found['accuracy']:.4f}", flush=True)
        with tf.io.gfile.GFile(evaluation(args.job_dir, found["epoch"]), "w") as file:
            file.write(json.dumps(found))


def evaluation(job_dir: str, epoch: int) -> str:
    """Where the evaluator writes what it found."""
    return f"{job_dir}/evaluation/{epoch}.json"


def coordinate(args: argparse.Namespace, resolver: tf.distribute.cluster_resolver.TFConfigClusterResolver) -> Network:
    """The chief: train through the workers; the network as it is at the end."""
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    cluster = resolver.cluster_spec()
    workers, servers = cluster.num_tasks("worker"), cluster.num_tasks("ps")
    print(f"chief 0: coordinates {workers} workers and {servers} parameter servers", flush=True)
    with strategy.scope():
        network = Network(args.hidden)
    print(f"weights lie on {sorted({weight.device for weight in network.weights})}", flush=True)
    epoch = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(network=network, epoch=epoch)
    manager = tf.train.CheckpointManager(checkpoint, f"{args.job_dir}/checkpoints", max_to_keep=5)
    if manager.latest_checkpoint:
        checkpoint.restore(manager.latest_checkpoint)
        print(f"chief 0: goes on after epoch {int(epoch)}", flush=True)

    known = data(test=False)

    def batches() -> tf.data.Dataset:
        # Each worker has all of the data, in an order of its own.
        return tf.data.Dataset.from_tensor_slices(known).shuffle(1000).repeat().batch(args.batch_size)

    @tf.function
    def step(iterator: tf.data.Iterator) -> tf.Tensor:
        measurements, labels = next(iterator)
        with tf.GradientTape() as tape:
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, network(measurements))
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, network.weights)
        for index, weight in enumerate(network.weights):
            weight.assign_sub(args.learning_rate * gradients[index])
        return loss

    iterator = iter(coordinator.create_per_worker_dataset(batches))
    an_epoch = len(known[1]) // args.batch_size
    while int(epoch) < args.epochs:
        results = [coordinator.schedule(step, args=(iterator,)) for _ in range(an_epoch)]
        coordinator.join()
        epoch.assign_add(1)
        if int(epoch) % args.checkpoint_every == 0 or int(epoch) == args.epochs:
            loss = sum(result.fetch() for result in results) / an_epoch
            print(f"epoch {int(epoch):3d}  loss {loss:.4f}", flush=True)
            manager.save()
    return network


def finish(network: Network, args: argparse.Namespace) -> None:
    """Write the model, let the evaluator finish, check the quality."""
    alone = Network(args.hidden)
    for index, weight in enumerate(network.weights):
        alone.weights[index].assign(weight.numpy())
    tf.saved_model.save(alone, f"{args.job_dir}/model", signatures={"serving_default": alone.__call__})
    print(f"model written to {args.job_dir}/model", flush=True)
    job = json.loads(json.loads(os.environ["TF_CONFIG"]).get("job", "{}"))
    if int(job.get("evaluator_count", 0)):
        # The evaluator is stopped when the chief ends.
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not tf.io.gfile.exists(evaluation(args.job_dir, args.epochs)) and time.monotonic() < deadline:
            time.sleep(1)
    found = accuracy(alone)
    print(f"test accuracy {found:.4f}", flush=True)
    if found < args.minimum_accuracy:
        sys.exit(f"test accuracy {found:.4f} is below {args.minimum_accuracy}")


def main() -> None:
    """Do this replica's part."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir", required=True)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--checkpoint-every", type=int, default=5, metavar="EPOCHS")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--minimum-accuracy", type=float, default=0.0)
    args = parser.parse_args()
    args.job_dir = args.job_dir.rstrip("/")
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        serve(resolver)
    elif resolver.task_type == "evaluator":
        score(args)
    else:
        finish(coordinate(args, resolver), args)


if __name__ == "__main__":
    main()

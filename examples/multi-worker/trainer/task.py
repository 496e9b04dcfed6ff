"""Train a digit classifier on a chief and its workers in step, while an evaluator scores every checkpoint.

- The chief and the workers are one MultiWorkerMirroredStrategy: each sees its own share of the data, gradients are
  summed after every step, all hold the same weights.
- The chief writes a checkpoint to ``<job dir>/checkpoints`` after every few epochs. Whoever starts looks there first: a
  job whose machine was taken away goes on from the newest checkpoint, and so does a new job with the same job dir.
- The evaluator stands outside the cluster. It reads the checkpoints as they come and writes the accuracy of each to
  ``<job dir>/evaluation/<epoch>.json``. It never ends by itself: the job ends with the chief.
- A replica that loses its peers exits with 143, which restarts it; an exception's 1 would fail the whole job.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time

# TensorFlow's own account of its start-up would hide the trainer's.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# What TensorFlow knows of an object in Cloud Storage it keeps for 5 s: too long for files that another replica writes.
os.environ.setdefault("GCS_STAT_CACHE_MAX_AGE", "0")

import tensorflow as tf

from trainer.network import Network, accuracy, data

PEERS_LOST = 143
PATIENCE_SECONDS = 120


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


def share(context: tf.distribute.InputContext, batch_size: int) -> tf.data.Dataset:
    """One replica's own part of the training data, without end."""
    pictures = tf.data.Dataset.from_tensor_slices(data(test=False))
    mine = pictures.shard(context.num_input_pipelines, context.input_pipeline_id)
    return mine.shuffle(2000, seed=1).repeat().batch(batch_size)


def train(args: argparse.Namespace, config: dict) -> None:
    """The chief and the workers."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    replicas, task = strategy.num_replicas_in_sync, config["task"]
    print(f"{task['type']} {task['index']}: one of {replicas} replicas", flush=True)
    with strategy.scope():
        network = Network(args.hidden)
    epoch = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(network=network, epoch=epoch)
    manager = tf.train.CheckpointManager(checkpoint, f"{args.job_dir}/checkpoints", max_to_keep=5)
    resumed = manager.latest_checkpoint
    if resumed:
        checkpoint.restore(resumed)
        print(f"{task['type']} {task['index']}: goes on after epoch {int(epoch)}", flush=True)

    def step(pixels: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, network(pixels))
            loss = tf.reduce_mean(losses) / replicas
        gradients = tape.gradient(loss, network.weights)
        total = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        for index, weight in enumerate(network.weights):
            weight.assign_sub(args.learning_rate * total[index])
        return loss

    @tf.function
    def steps(iterator: tf.data.Iterator, count: tf.Tensor) -> tf.Tensor:
        loss = tf.constant(0.0)
        for _ in tf.range(count):
            loss = strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step, args=next(iterator)), axis=None)
        return loss

    batches = iter(strategy.distribute_datasets_from_function(lambda context: share(context, args.batch_size)))
    an_epoch = tf.constant(len(data(test=False)[1]) // (args.batch_size * replicas))
    while int(epoch) < args.epochs:
        loss = steps(batches, an_epoch)
        epoch.assign_add(1)
        if int(epoch) % args.checkpoint_every == 0 or int(epoch) == args.epochs:
            print(f"epoch {int(epoch):3d}  loss {float(loss):.4f}", flush=True)
            if task["type"] == "chief":
                manager.save()
        lose(task, args, now=int(epoch) == args.lose_worker_after and not resumed)
    if task["type"] == "chief":
        finish(network, args, config)
    # All end together, so that none takes another's end for a crash.
    steps(batches, tf.constant(1))


def lose(task: dict, args: argparse.Namespace, *, now: bool) -> None:
    """End worker 0 as if its machine were taken away, once the chief has saved; for those who want to see it go on."""
    if not now or task != {"type": "worker", "index": 0}:
        return
    saved = f"-{args.lose_worker_after // args.checkpoint_every}"
    while not (tf.train.latest_checkpoint(f"{args.job_dir}/checkpoints") or "").endswith(saved):
        time.sleep(0.5)
    print("worker 0: gone", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def finish(network: Network, args: argparse.Namespace, config: dict) -> None:
    """Write the model, let the evaluator finish, check the quality."""
    alone = Network(args.hidden)
    for index, weight in enumerate(network.weights):
        alone.weights[index].assign(weight.numpy())
    tf.saved_model.save(alone, f"{args.job_dir}/model", signatures={"serving_default": alone.__call__})
    print(f"model written to {args.job_dir}/model", flush=True)
    if int(json.loads(config.get("job", "{}")).get("evaluator_count", 0)):
        # The evaluator is stopped when the chief ends.
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not tf.io.gfile.exists(evaluation(args.job_dir, args.epochs)) and time.monotonic() < deadline:
            time.sleep(1)
    found = accuracy(alone)
    print(f"test accuracy {found:.4f}", flush=True)
    if found < args.minimum_accuracy:
        sys.exit(f"test accuracy {found:.4f} is below {args.minimum_accuracy}")


def arguments() -> argparse.Namespace:
    """The options that the job file passes on."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir", required=True)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--checkpoint-every", type=int, default=5, metavar="EPOCHS")
    parser.add_argument("--batch-size", type=int, default=32, help="pictures a step on each replica")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=0.5)
    parser.add_argument("--minimum-accuracy", type=float, default=0.0)
    parser.add_argument("--lose-worker-after", type=int, default=0, metavar="EPOCH", help="to see the job go on")
    return parser.parse_args()


def main() -> None:
    """Do this replica's part."""
    args = arguments()
    args.job_dir = args.job_dir.rstrip("/")
    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    config.setdefault("task", {"type": "chief", "index": 0})
    if config["task"]["type"] == "evaluator":
        score(args)
        return
    try:
        train(args, config)
    except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError) as error:
        print(f"{config['task']['type']} {config['task']['index']}: lost its peers: {error.message}", flush=True)
        os._exit(PEERS_LOST)
    if config["task"]["type"] == "worker":
        # TensorFlow would take its leave of the chief, which may have ended, and wait for an answer.
        os._exit(0)


if __name__ == "__main__":
    main()

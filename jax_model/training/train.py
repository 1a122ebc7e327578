"""Train the attention classifier: `python -m jax_model.training.train --data aclImdb_v1.tar.gz --out model.npz`.

P1, appendix F: 20,000 reviews to train on, 5,000 to validate with, AdamW, cross-entropy; T_max = 256, d_e = 128,
d_att = d_out = 64 and K = 6 heads are the paper's. Ours: the collapsed forward pass (`collapsed.py`), the split by
film, random windows and random [UNK]s (`batches.py`), a cosine schedule, an average of the weights along the way
(EMA), which is what is validated and kept, and a stop when the validation loss no longer falls. As in the paper, the
inner biases stay zero and the positions stay those of Eq. 3, here times `scale`, to be of the embeddings' size.

A run is a function of its settings, its data and the number of devices: the same ones give the same bits, with or
without a kill and a `--resume` in between. The test set is not touched; `benchmarks/accuracy.py` is for that.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from attn_closed_form.classifier.weights import AttentionWeights
from attn_closed_form.evaluate.datasets import Reviews, load_imdb
from attn_closed_form.explainable.model_file import save_model
from attn_closed_form.explainable.text import Vocabulary
from attn_closed_form.explainable.text_classifier import TextClassifier

from ..witness.params import Params, weights_from_params
from .batches import Batches, Documents, encode_documents, film_groups, split_by_film
from .checkpoint import load_checkpoint, save_checkpoint
from .devices import CHOICES, cut_by_document, device_mesh, join_cluster, on_every_device
from .fit import adamw
from .progress import Progress
from .steps import (
    Config,
    State,
    all_logits,
    predict_function,
    start_arrays,
    step_function,
    validation_scores,
)


class Result(NamedTuple):
    """A trained model and how it came about; `metrics` is what the JSON file holds."""

    weights: AttentionWeights
    vocabulary: Vocabulary
    metrics: dict[str, Any]


def train(
    config: Config,
    reviews: Reviews,
    device: str = "auto",
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_steps: int | None = None,
    resume: bool = False,
    log: Callable[[str], None] | None = None,
) -> Result:
    """Train on labelled reviews.

    Parameters
    ----------
    config : Config
    reviews : what `load_imdb(path, "train")` returns; a part is held out for validation
    device : "auto", "cpu" or "gpu"; all devices of the kind share the work
    checkpoint : a file to write the state to after every epoch (and every `checkpoint_steps` steps); None writes none
    checkpoint_steps : steps between checkpoints within an epoch
    resume : go on from `checkpoint` if it is there
    log : called with a line an epoch; None draws a progress bar if stderr is a terminal and prints lines otherwise

    Returns
    -------
    Result, with the averaged weights of the epoch of the smallest validation loss
    """
    mesh = device_mesh(device)
    if config.batch_size % mesh.size:
        raise ValueError(f"batch_size: expected a multiple of the {mesh.size} devices, got {config.batch_size}")
    training, validating = split_by_film(reviews, config.validation)
    vocabulary = Vocabulary.build(training.texts, size=config.D, groups=film_groups(training))
    cls, unk = vocabulary.cls_id, vocabulary.unk_id
    documents = encode_documents(vocabulary, training.texts, training.labels)
    held_out = encode_documents(vocabulary, validating.texts, validating.labels)
    if documents.size < config.batch_size:
        raise ValueError(f"batch_size: expected at most the {documents.size} training reviews, got {config.batch_size}")
    batches = Batches(documents, config.T_max, config.batch_size, config.max_unk, config.crop, config.seed, cls, unk)

    fixed, trained = start_arrays(config, len(vocabulary), cls)
    optimizer = adamw(config.learning_rate, config.warmup_steps, config.epochs * batches.steps, config.weight_decay)
    take_step = step_function(optimizer, fixed, cls, config.ema)
    predict = predict_function(mesh, fixed, cls)
    copy = jax.jit(lambda tree: jax.tree.map(jnp.copy, tree))
    zero = np.zeros((), np.float32)
    state = State(trained, jax.jit(optimizer.init)(trained), trained, trained, np.zeros((), np.int32), zero)
    notes: dict[str, Any] = {
        "config": asdict(config),
        "data": [documents.checksum(), held_out.checksum()],
        "devices": mesh.size,
        "history": [],
        "best": None,
    }
    if checkpoint is not None and Path(checkpoint).exists():
        if not resume:
            raise ValueError(f"{checkpoint}: a checkpoint of an unfinished run; resume it, or delete it to start anew")
        state, saved = load_checkpoint(checkpoint, state)
        _check_same_run(checkpoint, saved, notes)
        notes = saved
    state = on_every_device(mesh, state)

    with Progress(config.epochs, batches.steps, log) as progress:
        for epoch in range(int(state.step) // batches.steps, config.epochs):
            if _stop(config, notes):
                break
            began, first = time.perf_counter(), int(state.step) % batches.steps
            order = batches.order(epoch)
            for i in range(first, batches.steps):
                ids, labels = batches.step_batch(epoch, i, order)
                state = take_step(state, cut_by_document(mesh, ids), cut_by_document(mesh, labels))
                progress.step(epoch, i + 1)
                if checkpoint_steps and (i + 1) % checkpoint_steps == 0 and i + 1 < batches.steps:
                    _checkpoint(checkpoint, state, notes)
            state.loss_sum.block_until_ready()
            took = time.perf_counter() - began
            logits = all_logits(mesh, predict, state.average, held_out, config.T_max, cls, unk)
            record = {
                "epoch": epoch + 1,
                "training_loss": float(state.loss_sum) / batches.steps,
                **validation_scores(logits, held_out.labels),
                "seconds": round(took, 3),
                "seconds_cover_steps": batches.steps - first,
            }
            notes["history"].append(record)
            if notes["best"] is None or record["validation_loss"] < notes["best"]["validation_loss"]:
                notes["best"] = record
                state = state._replace(best=copy(state.average))
            state = state._replace(loss_sum=on_every_device(mesh, zero))
            progress.epoch(record)
            _checkpoint(checkpoint, state, notes)

    weights = weights_from_params(Params(**fixed, **jax.tree.map(np.asarray, state.best)), cls=cls, unk=unk)
    return Result(weights, vocabulary, _metrics(notes, documents, held_out, vocabulary, mesh))


def _stop(config: Config, notes: dict[str, Any]) -> bool:
    history = notes["history"]
    return bool(history) and history[-1]["epoch"] - notes["best"]["epoch"] > config.patience


def _checkpoint(path: str | os.PathLike[str] | None, state: State, notes: dict[str, Any]) -> None:
    if path is not None and jax.process_index() == 0:
        save_checkpoint(path, state, notes)


def _check_same_run(path: str | os.PathLike[str], saved: dict[str, Any], current: dict[str, Any]) -> None:
    for name, value in current["config"].items():
        if saved["config"].get(name) != value:
            raise ValueError(f"{path}: a checkpoint of a run with {name}={saved['config'].get(name)}, got {value}")
    if saved["data"] != current["data"]:
        raise ValueError(f"{path}: a checkpoint of a run on other data")


def _metrics(
    notes: dict[str, Any], documents: Documents, held_out: Documents, vocabulary: Vocabulary, mesh: Mesh
) -> dict[str, Any]:
    return {
        "config": notes["config"],
        "training_reviews": documents.size,
        "validation_reviews": held_out.size,
        "vocabulary_size": len(vocabulary),
        "devices": [str(device) for device in mesh.devices.flat],
        "processes": jax.process_count(),
        "versions": {"jax": jax.__version__, "optax": optax.__version__, "numpy": np.__version__},
        "history": notes["history"],
        "best": notes["best"],
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the trainer's flags to a parser; `run` takes what it parses."""
    parser.add_argument("--data", required=True, metavar="PATH", help="aclImdb_v1.tar.gz or its unpacked folder")
    parser.add_argument("--out", required=True, metavar="FILE", help="model file to write, .npz or .safetensors")
    parser.add_argument("--metrics", metavar="FILE", help="metrics to write (default: beside --out, .json)")
    parser.add_argument("--checkpoint", metavar="FILE", help="state of the run (default: beside --out, .checkpoint)")
    parser.add_argument("--checkpoint-steps", type=int, metavar="N", help="also write it every N steps of an epoch")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint of an interrupted run")
    parser.add_argument("--device", choices=CHOICES, default="auto", help="default: whatever JAX finds")
    parser.add_argument("--coordinator", metavar="HOST:PORT", help="several hosts: where process 0 listens")
    parser.add_argument("--processes", type=int, metavar="N", help="several hosts: how many processes")
    parser.add_argument("--process-id", type=int, metavar="I", help="several hosts: which one this is, from 0")
    settings = parser.add_argument_group("settings of the run")
    for field in fields(Config):
        flag = "--" + field.name.replace("_", "-").lower()
        kind = float if isinstance(field.default, float) else int
        settings.add_argument(flag, dest=field.name, type=kind, default=field.default, metavar="X", help="%(default)s")


def run(args: argparse.Namespace) -> int:
    """Train as the parsed flags say and write the model and its metrics; returns the exit status."""
    out = Path(args.out)
    metrics = Path(args.metrics) if args.metrics else out.with_suffix(".json")
    checkpoint = Path(args.checkpoint) if args.checkpoint else out.with_suffix(".checkpoint")
    try:
        if out.suffix not in (".npz", ".safetensors"):
            raise ValueError(f"out: expected a file name ending in .npz or .safetensors, got {args.out!r}")
        if not out.parent.is_dir():
            raise FileNotFoundError(f"out: expected a file in an existing folder, got {args.out!r}")
        config = Config(**{field.name: getattr(args, field.name) for field in fields(Config)})
        join_cluster(args.coordinator, args.processes, args.process_id)
        device_mesh(args.device)  # a missing GPU is better known before the data is read
        result = train(
            config, load_imdb(args.data, "train"), args.device, checkpoint, args.checkpoint_steps, args.resume
        )
    except (ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if jax.process_index() == 0:
        save_model(TextClassifier(result.weights, result.vocabulary), out, dtype=np.float32)
        metrics.write_text(json.dumps(result.metrics, indent=1) + "\n", encoding="utf-8")
        checkpoint.unlink(missing_ok=True)
        best = result.metrics["best"]
        print(f"{out}: validation accuracy {best['validation_accuracy']:.2%}, loss {best['validation_loss']:.4f}")
    return 0


def main(argv: list[str] | None = None) -> int:
    """Command line of `python -m jax_model.training.train`."""
    parser = argparse.ArgumentParser(
        prog="python -m jax_model.training.train", description="Train the classifier on IMDB."
    )
    add_arguments(parser)
    return run(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())

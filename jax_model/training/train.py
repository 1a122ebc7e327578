"""Train the attention classifier on texts with classes: split, vocabulary, steps, the best weights,
a temperature.

P1 (appendix F) trains on 20,000 reviews and validates on 5,000, with AdamW and cross-entropy
(`config.P1`). Departures: any number of classes (two share one logit, as in the paper; C have C
outputs and a softmax), the collapsed forward pass (`text_model.py`), random windows and random
deletion of words (`batches.py`), a cosine schedule, a running average of the weights (EMA), which
is validated and kept, early stopping when the validation loss no longer falls, and a temperature
fitted on the held-out texts (`scores.py`). As in the paper, the inner biases stay zero, and the
positions of a model that has them stay those of Eq. 3, here times `scale`, to match the size of the
embeddings.

With `refit` "all", a second model is trained on all texts, for the best number of epochs, over
which its learning rate falls. This model is kept, with the temperature of the first one; the scores
on the held-out texts are those of the first one.

`loop.py` has the loop, `command.py` has the command line, and `estimators.py` has the scikit-learn
interface.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from jax.sharding import Mesh
from numpy.typing import NDArray

from attn_closed_form import __version__
from attn_closed_form.app.files.tables import Labelled
from attn_closed_form.app.models.text import Vocabulary
from attn_closed_form.app.models.text_classifier import TextClassifier
from attn_closed_form.attention import predict_many

from ..witness.params import Params, weights_from_params
from .batches import Batches, Documents, encode_documents
from .config import Config
from .devices import cut_by_document, device_mesh, on_every_device
from .loop import Fit, Optimizer, PathLike, TrainingProgress, check_leftover, fit
from .scores import (
    balanced_weights,
    fit_temperature,
    log_probabilities,
    report,
    validation_scores,
)
from .split import Split, together
from .table_selection import evidence_temperature, text_losses
from .text_model import (
    Baseline,
    Trained,
    all_logits,
    start_arrays,
    start_from_tables,
    take_masses,
    text_loss,
)
from .train_tables import SPECIAL_WORDS, Result, TableStart, integer_labels, table_start
from .word_tables import MASSLESS, FittedTables


def train(
    config: Config,
    split: Split,
    device: str = "auto",
    checkpoint: PathLike | None = None,
    checkpoint_steps: int | None = None,
    resume: bool = False,
    log: Callable[[str], None] | None = None,
    test: Labelled | None = None,
    start: TableStart | None = None,
) -> Result:
    """Train on texts, and keep the averaged weights of the best epoch or of a second training on
    all texts.

    Parameters
    ----------
    split : the texts to train on and those held out (`split.py`)
    device : "auto", "cpu" or "gpu"; all devices of the kind share the work
    checkpoint : a file to write the state to after every epoch (and every `checkpoint_steps`
        steps); or None
    resume : whether to resume from `checkpoint` if it exists
    log : called with one line per epoch; None shows a progress bar on a terminal and prints lines
        otherwise
    test : test texts, which are only scored once, with the final model
    start : fitted tables to start from, if `config.start` asks for them; None fits them
    """
    # The tables from which the training starts take a while.
    check_leftover(checkpoint, resume)
    mesh = device_mesh(device)
    # A batch is divided evenly.
    if config.batch_size % mesh.size:
        raise ValueError(
            f"batch_size: expected a multiple of the {mesh.size} devices, got {config.batch_size}"
        )
    options: dict[str, Any] = {"every": checkpoint_steps, "resume": resume}
    # The first training has held-out texts, which tell when to stop.
    if config.start == "tables" and start is None:
        start = table_start(split, config)
    run = Run.of(config, split, mesh, start and start.of_training)
    first = run.fit(
        config.epochs,
        run.validate,
        TrainingProgress(config.epochs, run.batches.steps, log),
        checkpoint,
        **options,
    )
    # Calibrated on the same texts: one number for thousands of them.
    logits = run.logits(first.params, run.held_out)
    temperature = run.temperature(logits)
    calibrated = run.calibrated(logits, temperature)
    scores = report(calibrated, run.held_out.labels, run.classes)
    card: dict[str, Any] = {"training_texts": run.batches.documents.size, "held_out": scores}
    metrics: dict[str, Any] = {"history": first.history, "best": first.best}
    # The scores above are those of the first training, also if a second one makes the model.
    weights = first.params
    if config.refit == "all":
        # The second one has none, and trains for as many epochs as the first one was best with.
        epochs = first.best["epoch"]
        run = Run.of(config, together(split), mesh, start and start.of_all)
        progress = TrainingProgress(
            epochs=epochs, steps=run.batches.steps, log=log, name="on all texts: epoch"
        )
        again = None
        if checkpoint is not None:
            again = refit_checkpoint(checkpoint)
        second = run.fit(epochs, None, progress, again, **options)
        card["refit"] = {"texts": run.batches.documents.size, "epochs": epochs}
        metrics["refit_history"] = second.history
        weights = second.params
    if test is not None:
        # Scored once, by the weights that are kept.
        documents = run.documents(test)
        logits_of_test = run.calibrated(run.logits(weights, documents), temperature)
        card["test"] = report(logits_of_test, documents.labels, run.classes)
    model = run.model(weights, temperature, card)
    metrics |= {
        **card,
        "classes": list(run.classes),
        "temperature": temperature,
        "vocabulary_size": len(run.vocabulary),
        "devices": [str(device) for device in mesh.devices.flat],
        "processes": jax.process_count(),
    }
    return Result(
        model=model, metrics=metrics, losses=text_losses(calibrated, split.held_out.labels)
    )


def refit_checkpoint(checkpoint: PathLike) -> Path:
    """Return the checkpoint file of the training on all texts, next to that of the first
    training.
    """
    return Path(f"{checkpoint}.all")


class Massless(NamedTuple):
    """The words (D,) that have no mass and are left out of the documents, and their share of the
    tokens of the training texts.
    """

    words: NDArray[np.bool_]
    share_of_tokens: float

    def summary(self) -> dict[str, Any]:
        """Return what a card says about them, as about those of the table model."""
        # [UNK] counts as a word of neither kind.
        words = self.words[SPECIAL_WORDS:]
        return {
            "words": words.size,
            "words_with_mass": int((~words).sum()),
            "tokens_without_mass": self.share_of_tokens,
        }


class Run(NamedTuple):
    """The constants of a run: settings, devices, texts as ids, and the initial arrays."""

    config: Config
    mesh: Mesh
    vocabulary: Vocabulary
    classes: tuple[str, ...]
    batches: Batches
    held_out: Documents
    fixed: dict[str, NDArray[Any]]
    start: Trained
    baseline: Baseline | None
    massless: Massless | None

    @classmethod
    def of(
        cls, config: Config, split: Split, mesh: Mesh, tables: FittedTables | None = None
    ) -> Run:
        """Build the vocabulary, the ids of the texts, and weights, random ones or those of fitted
        tables.
        """
        c = config
        training = split.training
        vocabulary = Vocabulary.build(training.texts, size=c.D, groups=split.groups)
        cls_id = vocabulary.cls_id
        unk = vocabulary.unk_id
        documents = encode_documents(vocabulary, training.texts, training.labels)
        held_out = encode_documents(vocabulary, split.held_out.texts, split.held_out.labels)
        massless = None
        if tables is not None and c.takes_masses:
            every_token = documents.ids.size
            without_mass = tables.massless(list(vocabulary))
            documents = documents.without(without_mass)
            held_out = held_out.without(without_mass)
            massless = Massless(without_mass, 1 - documents.ids.size / max(every_token, 1))
        # An epoch has full batches only.
        if documents.size < c.batch_size:
            raise ValueError(
                f"batch_size: expected at most the {documents.size} training texts, got "
                f"{c.batch_size}"
            )
        batches = Batches(documents=documents, config=c, cls=cls_id, unk=unk)
        # Two classes share one logit, as in P1.
        outputs = len(training.classes)
        if outputs == 2:
            outputs = 1
        fixed, start = start_arrays(c, len(vocabulary), C=outputs, cls=cls_id, unk=unk)
        # The bias starts at the classes' shares: otherwise attention learns them first, from [CLS],
        # and stays there.
        weights = class_weights(c, documents.labels, len(training.classes))
        mass = weights * np.bincount(documents.labels, minlength=len(training.classes))
        # A class without texts has a small share, whose logarithm is finite.
        log_share = np.log(np.maximum(mass, 1e-3) / mass.sum()).astype(np.float32)
        if outputs > 1:
            start["b_l"] = log_share
        else:
            start["b_l"] = np.diff(log_share)
        baseline = None
        if c.baseline == "prior":
            baseline = Baseline(start["b_l"], np.array(batches.filler, dtype=np.int32))
        # The start from tables changes the embeddings, and leaves the rest random.
        if tables is not None:
            masses, values = tables.scores_of(list(vocabulary))
            # Words that the tables do not know start with the mass of the background if [UNK] has
            # none. Words without mass are in no document.
            masses[masses < MASSLESS / 2] = 0.0
            start_from_tables(start, fixed, cls=cls_id, unk=unk, masses=masses, values=values)
        classes = training.classes
        return cls(
            c, mesh, vocabulary, classes, batches, held_out, fixed, start, baseline, massless
        )

    def documents(self, data: Labelled) -> Documents:
        """Encode texts as the model reads them."""
        documents = encode_documents(self.vocabulary, data.texts, data.labels)
        if self.massless is None:
            return documents
        return documents.without(self.massless.words)

    def fit(
        self,
        epochs: int,
        validate: Callable[[Trained], dict[str, float]] | None,
        progress: TrainingProgress,
        checkpoint: PathLike | None,
        optimizer: Optimizer | None = None,
        **options: Any,
    ) -> Fit:
        """Train for `epochs` epochs, or until the validation loss no longer falls.

        optimizer : in place of the one that the settings describe
        """
        c = self.config
        if optimizer is None:
            optimizer = Optimizer(c.learning_rate, c.warmup_steps, c.weight_decay, c.ema)
        batches = self.batches
        weights = class_weights(c, batches.documents.labels, len(self.classes))
        constants = on_every_device(
            self.mesh, (self.fixed, np.int32(batches.cls), weights, self.baseline)
        )
        # The order of an epoch is drawn once, and not for each of its steps.
        order = functools.lru_cache(maxsize=1)(batches.order)

        def batch(step: int) -> tuple[Any, ...]:
            epoch, i = divmod(step, batches.steps)
            arrays = batches.step_batch(epoch, i, order(epoch))
            return (*constants, *(cut_by_document(self.mesh, array) for array in arrays))

        # A checkpoint of other texts is an error.
        data = [batches.documents.checksum(), self.held_out.checksum(), *self.classes]
        return fit(
            text_loss,
            self.start,
            batches=batch,
            steps=batches.steps,
            optimizer=optimizer,
            epochs=epochs,
            validate=validate,
            patience=c.patience + 1,
            mesh=self.mesh,
            checkpoint=checkpoint,
            about={**asdict(c), "data": data},
            progress=progress,
            **options,
        )

    def logits(self, trained: Trained, documents: Documents) -> NDArray[np.float32]:
        """Compute the (n, C) outputs of documents."""
        logits = all_logits(self.mesh, trained, self.fixed, documents, self.batches)
        return logits + self.shift(trained)

    def shift(self, trained: Trained) -> NDArray[np.float32]:
        """Return what is added to the outputs (C,) so that a text without words has the baseline
        that is asked for.
        """
        if self.baseline is None:
            return np.zeros(trained["b_l"].size, np.float32)
        # Subtracting the outputs for a text without words makes the baseline exact for any weights.
        empty = encode_documents(self.vocabulary, [""], [0])
        (outputs,) = all_logits(
            self.mesh, trained, self.fixed, documents=empty, batches=self.batches
        )
        return self.baseline.logits - outputs

    def temperature(self, logits: NDArray[Any]) -> float:
        """Fit the temperature to outputs (m, C) of the held-out texts; a fixed baseline does not
        depend on it.
        """
        if self.baseline is None:
            return fit_temperature(logits, self.held_out.labels)
        fixed = self.baseline.logits.astype(np.float64)
        return evidence_temperature(logits, fixed, self.held_out.labels)

    def calibrated(self, logits: NDArray[Any], temperature: float) -> NDArray[np.float64]:
        """Return the outputs (n, C) whose softmax are the calibrated probabilities."""
        fixed = np.zeros(logits.shape[1])
        if self.baseline is not None:
            fixed = self.baseline.logits.astype(np.float64)
        return fixed + (logits - fixed) / temperature

    def model(self, trained: Trained, temperature: float, card: dict[str, Any]) -> TextClassifier:
        """Return the classifier with its card, which contains nothing that differs between runs.

        With a fixed baseline, the temperature divides the values, and the bias makes the prediction
        for a text without words the baseline. The temperature of the model is 1.
        """
        card["settings"] = asdict(self.config)
        card["versions"] = {
            "attn_closed_form": __version__,
            "jax": jax.__version__,
            "optax": optax.__version__,
            "numpy": np.__version__,
        }
        # The twin's arrays become those of the core, which only needs NumPy.
        arrays = jax.tree.map(np.asarray, trained)
        if self.massless is not None:
            arrays = take_masses(arrays, self.fixed, self.batches.cls, self.massless.words)
            card |= self.massless.summary()
        params = Params(**self.fixed, **arrays)
        weights = weights_from_params(params, self.batches.cls, self.batches.unk)
        if self.baseline is not None:
            # Files store float32; the model that is returned has the same numbers as the file.
            divided = (weights.W_l / temperature).astype(np.float32).astype(np.float64)
            weights = replace(weights, W_l=divided)
            (empty,) = predict_many(weights, [np.zeros(0, dtype=np.intp)])
            weights = replace(weights, b_l=weights.b_l + self.baseline.logits - empty)
            card["prior"] = np.exp(log_probabilities(self.baseline.logits[None]))[0].tolist()
            # Its place has been taken by the division above.
            temperature = 1.0
        return TextClassifier(
            weights,
            self.vocabulary,
            self.classes,
            temperature,
            card=card,
            labels=integer_labels(self.classes),
        )

    def validate(self, trained: Trained) -> dict[str, float]:
        """Compute loss and accuracy on the held-out texts."""
        labels = self.held_out.labels
        weights = class_weights(self.config, labels, len(self.classes))
        return validation_scores(self.logits(trained, self.held_out), labels, weights[labels])


def class_weights(config: Config, labels: NDArray[Any], classes: int) -> NDArray[np.float32]:
    """Return the (classes,) weights of texts in the loss."""
    if config.class_weight == "none":
        return np.ones(classes, np.float32)
    return balanced_weights(labels, classes)

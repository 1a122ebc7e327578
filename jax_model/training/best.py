"""The better of two models: the table model and, for many texts, the attention model that starts
from it.

With one head and no positions both are the same functions of a text. Gradient steps with random
deletion of words end at other tables than L-BFGS. On 25,000 reviews of IMDB both are about as
accurate, but the loss of the attention model is smaller: the fitted tables are sure of any sentence
of a few words, since no review has so few. This takes longer, and does not help with a few thousand
texts. The attention model is kept if its mean loss on the held-out texts is smaller by more than
one standard error.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from attn_closed_form.app.files.tables import Labelled

from .config import Config, automatic
from .split import Split
from .table_selection import standard_error
from .train_tables import (
    Result,
    TableOptions,
    choose_tables,
    fitted_tables,
    table_start,
    train_tables,
)
from .word_tables import Floats

# Tuning: from this many training texts, the attention model is tried. It does not win for the 5,485
# texts of R8.
MANY_TEXTS = 10_000


def train_best(
    training: Labelled,
    options: TableOptions,
    held_out: Labelled | None = None,
    refit: bool = True,
    test: Labelled | None = None,
    progress: bool | None = None,
    by_film: Split | None = None,
    device: str = "auto",
    log: Callable[[str], None] | None = None,
) -> Result:
    """Train the table model and, if there are many texts, the attention model from there; keep the
    better one.

    The first parameters are those of `train_tables`.

    Parameters
    ----------
    by_film : the split of IMDB, whose parts are `training` and `held_out`; its attention model
        has the settings of the shipped model
    device, log : as in `train`
    """
    if progress is False and log is None:
        log = _nothing
    if not tries_attention(len(training.texts), options):
        return train_tables(training, options, held_out, refit, test, progress)
    tables = choose_tables(training, options, held_out, progress)
    # JAX is imported where it is needed: its start takes as long as the fit of small tables.
    from .train import train

    # The attention model has the same held-out texts, so that the losses can be compared.
    split = by_film
    if held_out is not None and split is None:
        split = Split(training, held_out)
    if split is None:
        # If there are several folds, the attention model is trained with the first one only.
        fold = tables.folds[0]
        split = Split(training.take(fold.training), training.take(fold.held_out))
    shared: dict[str, Any] = {"class_weight": options.class_weight, "seed": options.seed}
    shared |= {"start": "tables", "baseline": "prior", "refit": "all"}
    shared["zeros"] = "tables" if options.sparse else "none"
    # Held-out texts that the user names stay out of the fit.
    if held_out is not None and not refit:
        shared["refit"] = "none"
    if by_film is not None:
        config = Config(**shared)
    else:
        config = automatic(split.training.texts, D=options.vocabulary_size, **shared)
    # The settings of the tables need not be chosen again, for another number of words.
    start = table_start(split, config, tables)
    attention = train(config, split, device, log=log, test=test, start=start)
    # The losses of the folds are one after the other; the attention model has those of the first
    # one.
    losses = tables.losses[: len(attention.losses)]
    result = attention
    if not is_better(attention.losses, losses):
        result = fitted_tables(tables, options, refit, test)
    both = {"tables": float(losses.mean()), "attention": float(attention.losses.mean())}
    for record in (result.metrics, result.model.card):
        if record is not None:
            record["held_out_losses"] = both
    return result


def tries_attention(texts: int, options: TableOptions) -> bool:
    """Return whether the attention model is trained, too: for many texts, if JAX is installed."""
    if options.tokenizer is not TableOptions().tokenizer:
        return False
    return texts >= MANY_TEXTS and importlib.util.find_spec("jax") is not None


def is_better(losses: Floats, others: Floats) -> bool:
    """Return whether the losses of texts (m,) are smaller than others by more than one standard
    error on average.
    """
    difference = others - losses
    return float(difference.mean()) > standard_error(difference)


def _nothing(line: str) -> None:
    """Print nothing."""

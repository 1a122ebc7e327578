"""The official lime package on a model that reads token ids: what P1 compares its Theorem 5.1 with.

The package explains strings, so a document becomes the string of its ids, and a sampled string is
read back:

- `bow=True`, the package's default and the authors' choice, *deletes* every occurrence of a word;
  words behind move up. Its features are the different words, in order of first appearance, as
  `pooled_game(..., players="words")` has them;
- `bow=False` with a mask puts [UNK] in the place of one position, which is what Theorem 5.1 is
  about.

Most of a run's time goes into strings. `lime_by_masks` makes the package's draws and takes its
regression, but asks the model about masks: the same coefficients to rounding (tested), in a fourth
of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from attn_closed_form._arrays import numbered
from attn_closed_form._types import Array

Ids = NDArray[np.intp]
Model = Callable[[list[Ids]], Array]


def to_text(ids: Sequence[int] | Ids) -> str:
    """Ids as a text of numbers, which the package's default tokeniser splits at the spaces."""
    return " ".join(str(int(i)) for i in ids)


def to_ids(texts: Sequence[str]) -> list[Ids]:
    """Inverse of `to_text`, for many texts; what deletion leaves of spaces does no harm."""
    rows = [text.split() for text in texts]
    flat = np.array([int(word) for row in rows for word in row], dtype=np.intp)
    return np.split(flat, np.cumsum([len(row) for row in rows])[:-1])


def lime_package(
    model: Model, ids: Ids, bow: bool, unk: int, samples: int = 5000, seed: int = 0
) -> Array:
    """Coefficients of one run of the lime package for a document, default settings, all features:
    (d,).

    Parameters
    ----------
    model : a list of id arrays, maybe empty ones, to their outputs (n,)
    ids : (T,) the document
    bow : True deletes words (d different ones); False puts `unk` in a position (d = T)
    unk : id of [UNK]
    samples, seed : the package's `num_samples` and `random_state`
    """
    from lime.lime_text import LimeTextExplainer

    explainer = LimeTextExplainer(
        bow=bow, mask_string=str(unk), random_state=seed, feature_selection="none"
    )
    d = len(np.unique(ids)) if bow else len(ids)
    found = explainer.explain_instance(
        to_text(ids),
        lambda texts: np.asarray(model(to_ids(texts)))[:, None],
        (0,),
        num_features=d,
        num_samples=samples,
    )
    coefficients = np.zeros(d)
    for feature, weight in found.local_exp[0]:
        coefficients[feature] = weight
    return coefficients


def lime_by_masks(
    value: Callable[[NDArray[np.bool_]], Array], d: int, samples: int = 5000, seed: int = 0
) -> Array:
    """What `lime_package` returns for a function of masks, (d,): True keeps a feature.

    Parameters
    ----------
    value : (n, d) masks to outputs (n,)
    d : number of features
    samples, seed : the package's `num_samples` and `random_state`
    """
    from lime.lime_base import LimeBase

    rng = np.random.RandomState(seed)  # the package's generator
    masks = np.ones((samples, d), dtype=bool)
    for row, removed in enumerate(rng.randint(1, d + 1, samples - 1), start=1):
        masks[row, rng.choice(d, removed, replace=False)] = False
    # Cosine distance from the row of ones, as the package scales it, and its kernel.
    distances = 100 * (1 - np.sqrt(masks.mean(axis=1)))
    base = LimeBase(lambda distance: np.sqrt(np.exp(-(distance**2) / 25.0**2)), random_state=rng)
    _, pairs, *_ = base.explain_instance_with_data(
        masks.astype(float),
        np.asarray(value(masks))[:, None],
        distances,
        0,
        d,
        feature_selection="none",
    )
    coefficients = np.zeros(d)
    for feature, weight in pairs:
        coefficients[feature] = weight
    return coefficients


def words_deleted(
    model: Callable[[Ids], Array], ids: Ids, unk: int
) -> Callable[[NDArray[np.bool_]], Array]:
    """A model of (n, T) ids, padded with [UNK], as a function of masks (n, d) of the words of a
    document.

    A removed word is deleted everywhere and the rest moves up, as the package does it with
    `bow=True`.
    """
    word = numbered(ids)[0]

    def value(masks: NDArray[np.bool_]) -> Array:
        kept = masks[:, word]
        order = np.argsort(~kept, axis=1, kind="stable")
        return model(np.take_along_axis(np.where(kept, ids, unk), order, axis=1))

    return value

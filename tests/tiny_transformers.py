"""Tiny transformers with random weights, and tokenizers made here: nothing is downloaded."""

from functools import cache
from itertools import product

import numpy as np
import pytest

WORDS = (
    "the a film was is not very good bad slow fast start but won ##der ##ful ##s boring leads are "
    "together . , !"
)
CLASSES = ("negative", "neutral", "positive")
REVIEW = "The film was slow, but the leads are wonderful together!"


def need_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed: make test-all installs it")
    torch.set_num_threads(1)  # for models this small threads wait more than they work
    pytest.importorskip(
        "transformers", reason="transformers is not installed: make test-all installs it"
    )


def word_pieces(**options):
    """A WordPiece tokenizer as BERT's: [CLS] text [SEP]."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split()]
    tokenizer = Tokenizer(
        models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, mask_token="[MASK]", **names, **options
    )


def byte_pairs(special=None, **options):
    """A byte-level BPE tokenizer as GPT-2's, without special tokens around a text unless they are
    given.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    first = special or ["<|endoftext|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=first,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([REVIEW, "a good film, not a bad film"] * 3, trainer)
    if special:
        frame = [(special[0], 0), (special[2], 2)]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{special[0]} $A {special[2]}", special_tokens=frame
        )
    else:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **options)


def _labels(names):
    return {
        "num_labels": len(names),
        "id2label": dict(enumerate(names)),
        "label2id": {n: i for i, n in enumerate(names)},
    }


def _seeded(make):
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = make()
        for parameter in model.parameters():  # larger than the usual start, so that logits differ
            torch.nn.init.normal_(parameter, std=0.25) if parameter.ndim > 1 else None
    return model.eval()


def bert(names=CLASSES, positions=40, **options):
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
    }
    tokenizer = word_pieces()
    config = BertConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=positions,
        **sizes,
        **_labels(names),
        **options,
    )
    return _seeded(lambda: BertForSequenceClassification(config)), tokenizer


def distilbert(names=CLASSES):
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    tokenizer = word_pieces()
    config = DistilBertConfig(
        vocab_size=len(tokenizer), max_position_embeddings=40, dim=16, n_layers=2, n_heads=2, hidden_dim=24,
        **_labels(names)
    )  # fmt: skip
    return _seeded(lambda: DistilBertForSequenceClassification(config)), tokenizer


def roberta(names=CLASSES):
    from transformers import RobertaConfig, RobertaForSequenceClassification

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = byte_pairs(
        special, bos_token="<s>", cls_token="<s>", pad_token="<pad>", eos_token="</s>", sep_token=(
            "</s>"
        ),
        unk_token="<unk>", mask_token="<mask>",
    )  # fmt: skip
    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
    }
    config = RobertaConfig(
        vocab_size=len(tokenizer), max_position_embeddings=42, pad_token_id=1, bos_token_id=0, eos_token_id=2,
        type_vocab_size=1, **sizes, **_labels(names),
    )  # fmt: skip
    return _seeded(lambda: RobertaForSequenceClassification(config)), tokenizer


def gpt2(names=CLASSES, pad=None):
    from transformers import GPT2Config, GPT2ForSequenceClassification

    tokenizer = byte_pairs(bos_token="<|endoftext|>", eos_token="<|endoftext|>")
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=40, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
        pad_token_id=pad, **_labels(names),
    )  # fmt: skip
    return _seeded(lambda: GPT2ForSequenceClassification(config)), tokenizer


def gpt2_words():
    """A GPT-2 that predicts the next token."""
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = byte_pairs(bos_token="<|endoftext|>", eos_token="<|endoftext|>")
    sizes = {"n_positions": 40, "n_embd": 16, "n_layer": 2, "n_head": 2}
    config = GPT2Config(vocab_size=len(tokenizer), bos_token_id=0, eos_token_id=0, **sizes)
    return _seeded(lambda: GPT2LMHeadModel(config)), tokenizer


def llama_words():
    """A Llama that predicts the next token; its tokenizer puts special tokens on both sides of a
    text.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
    }
    tokenizer = word_pieces()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=40,
        bos_token_id=2,
        eos_token_id=3,
        pad_token_id=0,
        **sizes,
    )
    return _seeded(lambda: LlamaForCausalLM(config)), tokenizer


def trained(model, tokenizer, texts, labels=None, steps=80, rate=5e-3):
    """The model after some steps on all texts: on their labels, or without labels on their next
    tokens.
    """
    import torch

    rows = dict(tokenizer(texts, padding=True, return_tensors="pt"))
    hidden = rows["attention_mask"] == 0
    if labels is None:
        rows["labels"] = rows["input_ids"].masked_fill(hidden, -100)
    else:
        rows["labels"] = torch.tensor(labels)
    rows.pop("token_type_ids", None)
    torch.set_num_threads(1)  # for models this small threads wait more than they work
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model.train()
        for _ in range(steps):
            optimizer.zero_grad()
            model(**rows).loss.backward()
            optimizer.step()
    return model.eval(), tokenizer


SIGNS = {"good": 1, "fast": 1, "wonderful": 1, "bad": -1, "slow": -1, "boring": -1}


def trained_bert():
    """A BERT that has learned reviews of random words, each labeled by the majority of its
    judgments.
    """
    rng = np.random.default_rng(0)
    texts = []
    labels = []
    others = ["the", "a", "film", "was", "start", "leads", "are", "together", ",", "but"]
    while len(texts) < 200:
        words = [
            *rng.choice(list(SIGNS), size=rng.integers(1, 4)),
            *rng.choice(others, size=rng.integers(0, 9)),
        ]
        total = sum(SIGNS.get(word, 0) for word in words)
        if total:
            texts.append(" ".join(rng.permutation(words)))
            labels.append(int(total > 0))
    return trained(*bert(("negative", "positive")), texts, labels)


def trained_llama():
    """A Llama that has learned to end a review with its verdict."""
    words = {"fast": "good", "wonderful": "good", "slow": "bad", "boring": "bad"}
    texts = [
        f"the {noun} was {word} , the film is {verdict} ."
        for noun, (word, verdict) in product(("start", "film", "leads"), words.items())
    ]
    return trained(*llama_words(), texts, steps=120, rate=1e-2)


#: Language models, which have a probability for every next token.
LANGUAGE_MODELS = {"gpt2": gpt2_words, "llama": llama_words}
FAMILIES = {"bert": bert, "distilbert": distilbert, "roberta": roberta, "gpt2": gpt2}


@cache
def explained(family="bert"):
    """One explanation by every method, shared by tests that look at it."""
    from attn_closed_form import TransformerClassifier

    return TransformerClassifier(*FAMILIES[family](), samples=300).explain(REVIEW, "all")

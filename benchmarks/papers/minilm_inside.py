"""Explanations from the inside of a BERT-like classifier: attention, gradients, integrated
gradients, LRP. Needs torch.

Everything explains the log-odds of class 1 against class 0 of one unpadded document, and gives one
score per token between the special ones, which stay as they are.

- *Attention*: the last layer's attention of [CLS], mean over heads. *Rollout*: Abnar and Zuidema
  (2020), the product over the layers of (identity + mean over heads)/2, its row of [CLS]. Both are
  without sign.
- *Grad x input* and *IG* (captum's `IntegratedGradients`, 32 steps) with respect to the word
  embeddings; IG starts from [PAD] in place of every token.
- *LRP*: captum's has no rules for layer norm, softmax and GELU and refuses the model. This is
  AttnLRP (Achtibat et al., 2024), the version that P2 compares with, by the rules of
  `transformers/lrp.py`: gradient times input of a copy of the model that has the same values and
  other derivatives.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from captum.attr import IntegratedGradients
from transformers import AttentionInterface

from attn_closed_form._types import Array, Ids

IG_STEPS = 32
RELEVANT = "relevance"


class HandedThrough(torch.nn.Module):
    """A nonlinearity g with the values of g and the derivative g(x)/x."""

    def __init__(self, inner: Callable[[Any], Any]) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        """g(x), (...) -> (...)."""
        y = self.inner(x).detach()
        gain = torch.where(
            x.abs() > 1e-6, y / torch.where(x == 0, torch.ones_like(x), x), torch.zeros_like(x)
        ).detach()
        return x * gain + (y - x * gain).detach()


class HandedNorm(torch.nn.Module):
    """A layer norm whose division is a constant for the derivative."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        """The layer norm's own values, (..., d) -> (..., d)."""
        centered = x - x.mean(-1, keepdim=True)
        deviation = (centered.pow(2).mean(-1, keepdim=True) + self.inner.eps).sqrt().detach()
        return centered / deviation * self.inner.weight + self.inner.bias


def half_product(a: Any, b: Any) -> Any:
    """Matrix product whose relevance goes to both factors in halves."""
    return (a.detach() @ b + a @ b.detach()) / 2


def relevance_attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    scaling: float | None = None,
    **rest: Any,
) -> tuple[Any, None]:
    """Attention with AttnLRP's rule for products; one document without padding, so that there is no
    mask.
    """
    weights = (
        half_product(query, key.transpose(2, 3)) * (scaling or query.size(-1) ** -0.5)
    ).softmax(dim=-1)
    return half_product(weights, value).transpose(1, 2).contiguous(), None


def relevance_model(model: Any) -> Any:
    """A copy of a BERT classifier with the same outputs, whose gradient times input is the
    relevance.
    """
    AttentionInterface.register(RELEVANT, relevance_attention)
    new = copy.deepcopy(model).eval()
    new.set_attn_implementation(RELEVANT)
    for parent in list(new.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, torch.nn.LayerNorm):
                setattr(parent, name, HandedNorm(child))
            elif name in ("intermediate_act_fn", "activation"):
                setattr(parent, name, HandedThrough(child))
    return new


class Inside:
    """The inside of a classifier and the ids that its tokenizer puts around a document."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model = copy.deepcopy(model).eval()
        self.model.set_attn_implementation("eager")
        self.relevant = relevance_model(model)
        self.cls = tokenizer.cls_token_id
        self.sep = tokenizer.sep_token_id
        self.pad = tokenizer.pad_token_id

    def methods(self) -> dict[str, Callable[[Ids], Array]]:
        """All of them, by name."""
        return {
            "attention": self.attention,
            "rollout": self.rollout,
            "Grad": self.gradient,
            "IG": self.integrated_gradients,
            "LRP": self.relevance,
        }

    def row_of(self, tokens: Ids) -> Any:
        """Return the ids of a text with its special tokens, as a batch of one."""
        return torch.tensor([[self.cls, *np.asarray(tokens).tolist(), self.sep]])

    def embedded(self, ids: Any) -> Any:
        """Return the word embeddings of a batch."""
        return self.model.get_input_embeddings()(ids).detach()

    @staticmethod
    def log_odds(model: Any, embedded: Any) -> Any:
        """Return the log-odds of the second class for embedded texts."""
        logits = model(inputs_embeds=embedded).logits
        return logits[:, 1] - logits[:, 0]

    def _attentions(self, tokens: Ids) -> Any:
        """(layers, T+2, T+2), mean over heads."""
        with torch.inference_mode():
            found = self.model(input_ids=self.row_of(tokens), output_attentions=True).attentions
        return torch.stack([layer[0].mean(0) for layer in found])

    def attention(self, tokens: Ids) -> Array:
        """(T,) what [CLS] gives each token in the last layer."""
        return _plain(self._attentions(tokens)[-1, 0, 1:-1])

    def rollout(self, tokens: Ids) -> Array:
        """(T,) the same through all layers."""
        total = torch.eye(len(tokens) + 2)
        for layer in self._attentions(tokens):
            total = (layer + torch.eye(len(layer))) / 2 @ total
        return _plain(total[0, 1:-1])

    def gradient(self, tokens: Ids) -> Array:
        """(T,) gradient times input."""
        return self._gradient_times_input(self.model, tokens)

    def relevance(self, tokens: Ids) -> Array:
        """(T,) LRP."""
        return self._gradient_times_input(self.relevant, tokens)

    def _gradient_times_input(self, model: Any, tokens: Ids) -> Array:
        e = self.embedded(self.row_of(tokens)).requires_grad_()
        (slope,) = torch.autograd.grad(self.log_odds(model, e).sum(), e)
        return _plain((slope * e).sum(-1)[0, 1:-1])

    def integrated_gradients(self, tokens: Ids) -> Array:
        """(T,) along the straight way from [PAD]s."""
        start = self.row_of(np.full(len(tokens), self.pad))
        method = IntegratedGradients(lambda e: self.log_odds(self.model, e))
        found = method.attribute(
            self.embedded(self.row_of(tokens)),
            self.embedded(start),
            n_steps=IG_STEPS,
            internal_batch_size=IG_STEPS,
        )
        return _plain(found.sum(-1)[0, 1:-1])


def _plain(x: Any) -> Array:
    return x.detach().numpy().astype(np.float64)

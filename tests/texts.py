"""Texts for the tests of explanations, ordinary and hostile, and small models that know their
words.
"""

import numpy as np

from attn_closed_form import TextClassifier, load_demo_model
from attn_closed_form.app.models.text import Vocabulary, tokenize
from attn_closed_form.attention import random_weights

REVIEW = "A slow start, but a wonderful film. Not perfect: the music is awful! 8/10"

HOSTILE = {
    "script": "fine <script>alert('x')</script> film",
    "closing": 'fine "film" </script></style></title></svg> --> ]]> <!-- & &amp; &#60;',
    "attribute": "fine' onmouseover='alert(1)' film\" onload=\"alert(2)",
    "template": "fine {{film}} ${film} %s {0} $x^2$",
    "emoji": "fine 👩‍👩‍👧 film 🎬🏳️‍🌈 bad",
    "escape sequence": "fine \x1b[31mfilm\x1b[0m \x07 bad \x9b2J",
    "zero": "fine\x00film bad",
    "right to left": "fine \u202efilm\u202c bad \u2066film\u2069",
    "lines": "fine\r\nfilm\u2028bad\u2029film\x85bad",
    "surrogate": "fine \ud800 film bad",
    "decomposed": "ﬁne cafe\u0301 Ｆｉｌｍ bad",
    "one long word": "fine " + "a" * 5000 + " film",
    "long gap": "fine " + "." * 5000 + " film",
    "unknown": "zyx wvu tsr",
    "one word": "film",
    "repeated": "film film FILM Film",
}


def model_for(*texts, seed=3, T_max=64, K=2, unknown=("zyx", "wvu", "tsr"), **sizes):
    """A classifier with random weights and a vocabulary of the texts' words."""
    words = {token.word for text in texts for token in tokenize(text)} - set(unknown)
    vocabulary = Vocabulary(["[CLS]", "[UNK]", *sorted(words)])
    sizes = {"d_e": 16, "d_att": 5, "d_out": 7, "score_scale": 2.0, "biases": True, **sizes}
    weights = random_weights(seed=seed, D=len(vocabulary), T_max=T_max, K=K, **sizes)
    return TextClassifier(weights, vocabulary)


def six_heads():
    """A model of P1's kind and size, six heads and 256 positions, with random weights and the
    shipped vocabulary.
    """
    vocabulary = load_demo_model().vocabulary
    weights = random_weights(
        seed=6, D=len(vocabulary), d_e=128, T_max=256, K=6, d_att=64, d_out=64, score_scale=2.0
    )
    return TextClassifier(weights, vocabulary)


def typed(page):
    """A page with the minus signs and spaces of a keyboard, as our sentences have them."""
    return page.replace("\u2212", "-").replace("\u00a0", " ")


def long_text(n, seed=0):
    """A text of n words, some of them repeated."""
    rng = np.random.default_rng(seed)
    names = ["abcdefghij"[i % 10] * (1 + i % 7) + str(i) for i in range(2 * n)]
    return " ".join(rng.choice(names, n))

"""What kind of model a report is about, in words."""

from types import SimpleNamespace

import numpy as np
import pytest

from attn_closed_form import load_demo_model
from attn_closed_form.app.models.bag_classifier import BagClassifier
from attn_closed_form.app.models.bag_network import Attention, BagNetwork
from attn_closed_form.app.models.score_table import ScoreTable
from attn_closed_form.app.show.described import kind_of

KINDS = {
    "a text classifier": load_demo_model,
    "a transformer": lambda: SimpleNamespace(surrogate="fitted SLALOM"),
    "an attention-pooling network": lambda: BagClassifier(
        BagNetwork(Attention(np.ones((1, 2))), np.eye(2), np.zeros(2), None, np.zeros(2, dtype=int))
    ),
    "a softmax-weighted mean": ScoreTable,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_of_a_model(kind):
    assert kind_of(KINDS[kind]()) == kind

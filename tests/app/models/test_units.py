"""Units: their players, what is shown of them, and that they and all arrays of models stay
read-only.
"""

import pickle

import numpy as np
import pytest

from attn_closed_form import Bag, MeanPooledText, load_demo_model
from attn_closed_form.app.models.bag_network import Attention, BagNetwork
from attn_closed_form.app.models.layers import Layer
from attn_closed_form.app.models.units import Units


def some_units():
    return Units(
        labels=("a", "b", "a"),
        groups={"words": np.array([0, 1, 0])},
        text="a b a",
        places=np.array([(0, 1), (2, 3), (4, 5)]),
        coords=np.zeros((3, 2)),
    )


def bag_network():
    rng = np.random.default_rng(0)
    hidden = Layer(rng.normal(size=(3, 5)), activation="tanh")
    attention = Attention(rng.normal(size=(1, 3)), hidden=hidden)
    return BagNetwork(attention, rng.normal(size=(2, 5)), np.zeros(2))


def arrays_of(instance):
    """All arrays of an object and of the objects and mappings in it."""
    if isinstance(instance, np.ndarray):
        return [instance]
    parts = []
    if isinstance(instance, dict):
        parts = list(instance.values())
    elif hasattr(instance, "__dataclass_fields__"):
        parts = list(vars(instance).values())
    return [array for part in parts for array in arrays_of(part)]


FROZEN = {
    "units": some_units,
    "a text": lambda: load_demo_model().read("a fine film"),
    "a bag": lambda: Bag(np.ones((3, 2)), coords=np.zeros((3, 2)), regions=[0, 1, 1]),
    "a network": bag_network,
    "vectors": lambda: MeanPooledText(np.ones((4, 3)), np.ones((2, 3)), np.zeros(2), list),
}


@pytest.mark.parametrize("name", FROZEN)
def test_arrays_are_read_only_also_after_pickling(name):
    original = FROZEN[name]()
    again = pickle.loads(pickle.dumps(original))
    arrays = [array for array in arrays_of(original) if array is not getattr(original, "data", 0)]
    assert arrays and not any(array.flags.writeable for array in arrays)
    copies = arrays_of(again)
    assert len(copies) == len(arrays_of(original))
    assert not any(array.flags.writeable for array in copies)


def test_the_arrays_of_the_caller_stay_writable():
    features = np.ones((3, 2))
    numbers = np.array([0, 1, 0])
    Bag(features)
    Units(labels=("a", "b", "a"), groups={"words": numbers})
    assert features.flags.writeable and numbers.flags.writeable


def test_what_was_computed_is_not_pickled():
    model = load_demo_model()
    units = model.read("a fine film")
    model.logits(units)
    assert units.computed.scores is not None
    again = pickle.loads(pickle.dumps(units))
    assert again.computed.scores is None and again.spans == units.spans
    assert tuple(again.labels) == tuple(units.labels)


def test_players_are_named_by_their_first_unit():
    numbers, names = some_units().players("words")
    assert numbers.tolist() == [0, 1, 0] and names == ("a", "b")
    assert some_units().by_player("words").tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"labels": ()}, "labels"),
        ({"groups": {"words": np.zeros(2)}}, "groups"),
        ({"places": None}, "text, places"),
        ({"unknown": np.zeros(2, dtype=bool)}, "unknown"),
    ],
)
def test_fields_that_do_not_fit_are_refused(changes, name):
    fields = {"labels": ("a", "b", "a"), "groups": {"words": np.zeros(3)}, "text": "a b a"}
    fields["places"] = np.array([(0, 1), (2, 3), (4, 5)])
    with pytest.raises(ValueError, match=name):
        Units(**{**fields, **changes})

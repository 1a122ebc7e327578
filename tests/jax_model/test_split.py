"""What is held out: a share of every class."""

import numpy as np
import pytest

from attn_closed_form.app.files.tables import Labelled, TableWarning
from jax_model.training.split import split_stratified


def labelled(*counts):
    labels = np.repeat(np.arange(len(counts)), counts)
    return Labelled(
        [f"text {i}" for i in range(len(labels))], labels, tuple("abcdef"[: len(counts)])
    )


def test_every_class_is_held_out_in_its_share():
    split = split_stratified(labelled(100, 30, 7, 2), 0.1)
    np.testing.assert_array_equal(np.bincount(split.held_out.labels), [10, 3, 1, 1])
    np.testing.assert_array_equal(np.bincount(split.training.labels), [90, 27, 6, 1])
    assert not set(split.training.texts) & set(split.held_out.texts)
    again = split_stratified(labelled(100, 30, 7, 2), 0.1)
    other = split_stratified(labelled(100, 30, 7, 2), 0.1, seed=1)
    assert again.held_out.texts == split.held_out.texts != other.held_out.texts


def test_a_class_with_one_text_is_trained_on_and_said():
    with pytest.warns(
        TableWarning, match="only one text of class 'b': it is used for training and not"
    ):
        split = split_stratified(labelled(10, 1), 0.5)
    assert 1 in split.training.labels and 1 not in split.held_out.labels
    with (
        pytest.warns(TableWarning),
        pytest.raises(ValueError, match=r"^validation: "),
    ):
        split_stratified(labelled(1, 1, 1))
    with pytest.raises(ValueError, match=r"^validation: "):
        split_stratified(labelled(5, 5), 0)

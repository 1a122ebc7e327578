"""Sentences about certified reasons: the set, the side, the certified value, and whether the set is
minimal.
"""

import numpy as np

from attn_closed_form import PooledGame, contrastive_reason, sufficient_reason
from attn_closed_form.app.show.sentences import reason_sentence


def test_nothing_is_needed_and_nothing_flips():
    game = PooledGame.from_scores([0.0, 1.0], [2.0, 3.0], s_background=0.0, v_background=1.0)
    assert reason_sentence(sufficient_reason(game)).startswith(
        "No word is needed: whichever of the 2"
    )
    assert reason_sentence(contrastive_reason(game), things="patches") == (
        "No removal of patches takes the prediction to the other side: it stays positive."
    )


def test_a_prediction_below_a_threshold():
    game = PooledGame.from_scores(
        [0.0, 0.0, 0.0], [-4.0, 1.0, 2.0], s_background=0.0, v_background=0.0
    )
    labels = ["dull", "fine", "superb"]
    text = reason_sentence(sufficient_reason(game, 0.5), labels)
    assert text.startswith("“dull” alone is enough: whichever of the other 2 words are removed")
    assert "below 0.5 (at most -0.25)" in text
    flip = reason_sentence(contrastive_reason(game, 0.5), labels)
    assert flip.startswith("Removing “dull” changes the prediction to above 0.5")


def test_the_names_of_a_long_set_are_cut():
    d = 40
    game = PooledGame.from_scores(
        np.zeros(d), np.full(d, 0.1), s_background=0.0, v_background=-3.0, labels=range(d)
    )
    reason = sufficient_reason(game)
    assert reason.size == 31
    assert "and 19 others" in reason_sentence(reason)


def test_one_player_and_all_players_have_a_grammar():
    one = PooledGame.from_scores([0.0], [2.0], s_background=0.0, v_background=1.0, labels=["fine"])
    text = reason_sentence(sufficient_reason(one))
    assert text.startswith("Nothing is needed: even without the only word")
    needed = PooledGame.from_scores(
        [0.0], [2.0], s_background=0.0, v_background=-1.0, labels=["fine"]
    )
    text = reason_sentence(sufficient_reason(needed))
    assert text.startswith("The only word is needed: “fine”. With it, the prediction")
    text = reason_sentence(contrastive_reason(needed))
    assert text.startswith("Removing the only word, “fine”, changes the prediction to negative")
    both = PooledGame.from_scores(
        [0.0, 0.0], [2.0, 2.0], s_background=0.0, v_background=-3.0, labels=["fine", "good"]
    )
    text = reason_sentence(sufficient_reason(both))
    assert text.startswith(
        "All 2 words together are enough: “fine” and “good”. With them, the prediction"
    )
    negative = PooledGame.from_scores([0.0, 0.0], [-2.0, -2.0], s_background=0.0, v_background=3.0)
    assert "1 of 2 words" not in reason_sentence(contrastive_reason(negative))


def test_another_class_is_named():
    game = PooledGame.from_scores([0.0, 1.0], [2.0, 3.0], s_background=0.0, v_background=1.0)
    text = reason_sentence(contrastive_reason(game), other="another class")
    assert text.startswith("No removal of words takes the prediction to another class")

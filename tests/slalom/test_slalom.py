"""SLALOM: the model, its game, recovery, reading off and building weights."""

import dataclasses
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_closed_form import Slalom, predict
from attn_closed_form.attention import predict_many, random_weights
from attn_closed_form.slalom import (
    slalom_from_weights,
    slalom_linearized,
    slalom_recover,
    slalom_to_weights,
)
from tests.profiles import at_least

ALGEBRA = 1e-12  # equal but for rounding
RECOVERY = 1e-10  # a logarithm of differences of outputs costs a few digits


def toy(seed, V=7, C=None, spread=1.0, gamma=0.0):
    rng = np.random.default_rng(seed)
    ids = rng.choice(1000, size=V, replace=False)
    return Slalom(
        ids, spread * rng.normal(size=V), rng.normal(size=V if C is None else (V, C)), gamma
    )


def plain(slalom, tokens, c=None):
    """Eq. 4 in the paper's own indexing."""
    s = {int(i): float(x) for i, x in zip(slalom.ids, slalom.s, strict=True)}
    v = {int(i): float(x if c is None else x[c]) for i, x in zip(slalom.ids, slalom.v, strict=True)}
    return sum(np.exp(s[t]) * v[t] for t in tokens) / sum(np.exp(s[t]) for t in tokens)


class Counted:
    def __init__(self, f):
        self.f = f
        self.sequences = []

    def __call__(self, sequences):
        self.sequences += [list(map(int, s)) for s in sequences]
        return self.f(sequences)


# --- the model


@pytest.mark.parametrize("C", [None, 2])
def test_a_background_is_one_more_token_in_every_sequence(C):
    plain_one = toy(11, V=5, C=C)
    bias = 0.7 if C is None else np.array([0.7, -2.0])
    slalom = dataclasses.replace(plain_one, s_background=0.4, v_background=bias)
    spelt_out = Slalom(
        np.r_[slalom.ids, 5000], np.r_[slalom.s, slalom.s_background], np.r_[slalom.v, [bias]]
    )
    documents = [[], slalom.ids[:1], slalom.ids[[2, 2, 3]], slalom.ids]
    expected = spelt_out.predict_many([np.r_[np.asarray(d, dtype=int), 5000] for d in documents])
    np.testing.assert_allclose(slalom.predict_many(documents), expected, atol=ALGEBRA)
    game = slalom.game(slalom.ids)
    assert game.value([False] * 5) == pytest.approx(np.ravel(bias)[0], abs=ALGEBRA)
    assert game.value([True] * 5) == pytest.approx(
        np.ravel(slalom.predict(slalom.ids))[0], abs=ALGEBRA
    )
    weights = slalom_to_weights(slalom, T_max=9)
    np.testing.assert_allclose(
        predict_many(weights, documents[1:]), expected[1:].reshape(3, -1), atol=1e-10
    )
    derivative = slalom_linearized(slalom, slalom.ids)
    assert derivative.sum() == pytest.approx(
        -slalom_linearized(spelt_out, [*slalom.ids, 5000])[-1], abs=ALGEBRA
    )


def test_a_background_shifts_with_the_importances_and_is_checked():
    shifted = Slalom([1, 2], [10.0, 12.0], [1.0, 2.0], s_background=11.0, v_background=3.0)
    assert shifted.s_background == pytest.approx(0.0)
    assert "s_background=0" in repr(shifted)
    with pytest.raises(ValueError, match="s_background"):
        Slalom([1], [0.0], [1.0], s_background=np.nan)
    with pytest.raises(ValueError, match="v_background"):
        Slalom([1], [0.0], [1.0], s_background=0.0, v_background=[1.0, 2.0])


@pytest.mark.parametrize("C", [None, 3])
def test_predict_is_equation_4_with_multiplicity(C):
    slalom = toy(0, C=C)
    a, b, c = slalom.ids[:3].tolist()
    for tokens in ([a], [a, b], [a, a, b], [c, b, a, c, c]):
        if C:
            expected = [plain(slalom, tokens, k) for k in range(C)]
        else:
            expected = plain(slalom, tokens)
        np.testing.assert_allclose(slalom.predict(tokens), expected, rtol=0, atol=ALGEBRA)
    assert slalom.predict([a]).shape == (() if C is None else (C,))


def test_predict_many_has_one_row_per_document():
    slalom = toy(1, C=2)
    documents = [slalom.ids[:1], slalom.ids[[2, 2, 3]], slalom.ids]
    out = slalom.predict_many(documents)
    assert out.shape == (3, 2)
    np.testing.assert_allclose(out, [slalom.predict(d) for d in documents], rtol=0, atol=ALGEBRA)
    assert slalom.predict_many([]).shape == (0, 2)


@pytest.mark.parametrize("gamma", [0.0, 1.0, -3.5])
def test_importances_sum_to_gamma_and_a_shift_changes_nothing(gamma):
    a = Slalom([3, 5, 8], [1.0, 2.0, 4.0], [1.0, 0.0, -1.0], gamma)
    b = Slalom([3, 5, 8], [101.0, 102.0, 104.0], [1.0, 0.0, -1.0], gamma)
    assert a.s.sum() == pytest.approx(gamma, abs=ALGEBRA) and a.gamma == gamma
    np.testing.assert_allclose(a.s, b.s, atol=ALGEBRA)


def test_is_frozen_read_only_and_pickles():
    slalom = toy(2)
    slalom.predict(slalom.ids)
    with pytest.raises(dataclasses.FrozenInstanceError):
        slalom.gamma = 2.0
    with pytest.raises(ValueError, match="read-only"):
        slalom.s[0] = 1.0
    again = pickle.loads(pickle.dumps(slalom))
    assert again.predict(slalom.ids) == slalom.predict(slalom.ids)


def test_scores_of_1e4_do_not_overflow():
    slalom = Slalom([0, 1, 2], [1e4, 0.0, -1e4], [1.0, 2.0, 3.0])
    assert slalom.predict([0, 1, 2]) == 1.0
    assert slalom.predict([1, 2]) == 2.0
    assert slalom.predict([2, 2]) == 3.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 1], [0, 0], [0, 0]), "ids: "),
        (([], [], []), "ids: "),
        (([1.5, 2], [0, 0], [0, 0]), "ids: "),
        (([1, 2], [0, 0, 0], [0, 0]), "s: "),
        (([1, 2], [0, 0], [0, 0, 0]), "v: "),
        (([1, 2], [0, np.nan], [0, 0]), "s: "),
        (([1, 2], [0, 0], [np.inf, 0]), "v: "),
        (([1, 2], [0, 0], [0, 0], np.inf), "gamma: "),
    ],
)
def test_constructor_names_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        Slalom(*arguments)


def test_unknown_ids_and_empty_documents_are_errors():
    slalom = Slalom([3, 5], [0.0, 1.0], [1.0, -1.0])
    for call in (slalom.predict, slalom.game, lambda t: slalom_linearized(slalom, t)):
        with pytest.raises(ValueError, match=r"^tokens: "):
            call([3, 4])
        with pytest.raises(ValueError, match=r"^tokens: "):
            call([])
    with pytest.raises(ValueError, match="number 1"):
        slalom.predict_many([[3], []])


# --- the game


@pytest.mark.parametrize("output", [0, 1])
def test_game_values_are_predictions_of_what_is_left(output):
    slalom = toy(5, C=2)
    tokens = slalom.ids[[0, 3, 0, 2]]
    game = slalom.game(tokens, output=output, empty_value=0.25)
    for mask in itertools.product([False, True], repeat=4):
        left = tokens[list(mask)]
        if left.size:
            expected = slalom.predict(left)[output]
        else:
            expected = 0.25
        assert game.value(mask) == pytest.approx(expected, abs=ALGEBRA)
    words = slalom.game(tokens, players="words", output=output)
    assert words.labels == tuple(str(i) for i in slalom.ids[[0, 3, 2]])
    assert words.value([True, False, True]) == pytest.approx(
        slalom.predict(tokens[[0, 2, 3]])[output], abs=ALGEBRA
    )


def test_game_refuses_unknown_options():
    slalom = toy(6, C=2)
    with pytest.raises(ValueError, match="players"):
        slalom.game(slalom.ids, players="letters")
    with pytest.raises(ValueError, match="output"):
        slalom.game(slalom.ids, output=2)


# --- linearized scores


def test_linearized_score_is_the_derivative_by_soft_presence():
    slalom = toy(7)
    tokens = slalom.ids[[0, 1, 1, 4]]
    index = slalom.index(tokens)

    def soft(lam):  # Eq. 59
        mass = lam * np.exp(slalom.s[index])
        return mass @ slalom.v[index] / mass.sum()

    step = 1e-6
    numeric = [(soft(1 + step * e) - soft(1 - step * e)) / (2 * step) for e in np.eye(4)]
    np.testing.assert_allclose(slalom_linearized(slalom, tokens), numeric, atol=1e-9)


def test_equation_65_as_printed_is_not_proportional_to_the_derivative():
    slalom = toy(8)
    true, printed = (slalom_linearized(slalom, slalom.ids, as_printed=p) for p in (False, True))
    np.testing.assert_allclose(printed, slalom.v * np.exp(slalom.s), rtol=ALGEBRA)
    ratio = printed / true
    assert np.ptp(ratio) > 0.1 * np.abs(ratio).max()
    # It is, where F = 0.
    level = Slalom(slalom.ids, slalom.s, slalom.v - slalom.predict(slalom.ids))
    true, printed = (slalom_linearized(level, level.ids, as_printed=p) for p in (False, True))
    assert np.ptp(printed / true) < 1e-9


def test_printed_score_of_a_zero_value_is_zero_even_where_exp_overflows():
    slalom = Slalom([0, 1, 2], [2e3, -1e3, -1e3], [0.0, 1.0, -1.0])
    assert slalom_linearized(slalom, [0, 1, 2], as_printed=True).tolist() == [0.0, 0.0, -0.0]
    assert (
        slalom_linearized(Slalom([0, 1], [2e3, -2e3], [-1.0, 1.0]), [0], as_printed=True)[0]
        == -np.inf
    )


# --- recovery


@at_least(40)
@given(
    seed=st.integers(0, 10**6),
    V=st.integers(1, 30),
    C=st.sampled_from([None, 2, 3]),
    gamma=st.sampled_from([0.0, 1.0, -2.0]),
)
def test_recovery_with_exactly_2V_minus_1_sequences(seed, V, C, gamma):
    truth = toy(seed, V, C, gamma=gamma)
    f = Counted(truth.predict_many)
    found = slalom_recover(f, truth.ids, gamma)
    assert len(f.sequences) == 2 * V - 1
    assert max(map(len, f.sequences)) <= 2
    np.testing.assert_allclose(found.s, truth.s, rtol=0, atol=RECOVERY)
    np.testing.assert_allclose(found.v, truth.v, rtol=0, atol=RECOVERY)


def test_recovery_where_many_tokens_share_a_value():
    truth = Slalom(
        np.arange(6), [3.0, -1.0, 0.5, 2.0, -2.0, -2.5], [1.0, 1.0, 1.0, -1.0, -1.0, 1.0], gamma=1.0
    )
    found = slalom_recover(truth.predict_many, truth.ids, gamma=1.0)
    np.testing.assert_allclose(found.s, truth.s, rtol=0, atol=RECOVERY)


def test_recovery_of_a_constant_or_of_no_slalom_is_an_error():
    with pytest.raises(ValueError, match=r"^f: "):
        slalom_recover(lambda sequences: np.ones(len(sequences)), [1, 2, 3])
    with pytest.raises(ValueError, match=r"^f: "):  # an additive model
        slalom_recover(lambda sequences: np.array([float(sum(s)) for s in sequences]), [1, 2, 3])
    with pytest.raises(ValueError, match=r"^f: "):
        slalom_recover(lambda sequences: np.ones(2), [1, 2, 3])
    with pytest.raises(ValueError, match="f"):
        slalom_recover(lambda sequences: np.full(len(sequences), np.nan), [1, 2, 3])
    with pytest.raises(ValueError, match=r"^ids: "):
        slalom_recover(lambda sequences: np.ones(len(sequences)), [1, 1])


def recover_as_printed(f, ids, gamma, fix55=False, fix56=False, fix58=False):
    """B.6 step by step; each `fix` puts one equation right."""
    v = {t: f([t]) for t in ids}
    theta = ids[0]
    hat = next(t for t in ids if v[t] != v[theta])

    def d(tau, ref):
        g = (f([tau, ref]) - v[ref]) / (v[tau] - v[ref])  # Eq. 52
        return (-1 if fix55 else 1) * np.log(1 / g - 1)  # Eq. 55

    eta = {theta: 0.0}
    for tau in ids[1:]:
        if v[tau] != v[theta]:
            eta[tau] = d(tau, theta)
        else:
            eta[tau] = d(tau, hat) + (1 if fix56 else -1) * d(hat, theta)  # Eq. 56
    total = sum(eta.values())
    s_theta = (gamma - total) / len(ids) if fix58 else total / len(ids)  # Eq. 58
    return np.array([eta[t] + s_theta for t in ids])


def test_equations_55_56_and_58_fail_as_printed_and_hold_corrected():
    truth = Slalom([0, 1, 2, 3], [1.0, -0.5, 0.8, 0.3], [1.0, -1.0, 1.0, 0.4], gamma=1.0)
    ids = truth.ids.tolist()

    def error(**fixes):
        return np.abs(
            recover_as_printed(lambda t: float(truth.predict(t)), ids, 1.0, **fixes) - truth.s
        ).max()

    names = ("fix55", "fix56", "fix58")
    assert error(**dict.fromkeys(names, True)) < RECOVERY
    for left_out in names:
        assert error(**{name: name != left_out for name in names}) > 0.1


# --- weights


@at_least(25)
@given(
    seed=st.integers(0, 10**6),
    V=st.integers(1, 11),
    C=st.sampled_from([None, 1, 3]),
    T_max=st.integers(2, 40),
    d_att=st.integers(1, 5),
    spread=st.sampled_from([0.0, 1.0, 30.0]),
)
def test_weights_compute_the_slalom_at_every_length(seed, V, C, T_max, d_att, spread):
    slalom = toy(seed, V, C, spread)
    weights = slalom_to_weights(slalom, T_max=T_max, d_att=d_att)
    rng = np.random.default_rng(seed)
    documents = [rng.choice(slalom.ids, size=T) for T in range(1, T_max)]
    np.testing.assert_allclose(
        predict_many(weights, documents),
        slalom.predict_many(documents).reshape(T_max - 1, -1),
        rtol=0,
        atol=ALGEBRA,
    )
    assert not np.isin([weights.cls, weights.unk], slalom.ids).any()


def test_printed_construction_of_proposition_5_1_fails():
    """B.5, Eq. 29 to 43, in the paper's coordinates; the last layer returns the third component."""
    slalom = toy(9, V=5)
    d = 4
    e = np.zeros((5, d))
    e[:, 0] = slalom.s
    e[:, 1] = slalom.v
    W_class = np.array([0.0, 0, 1, 0])

    def output(W_q, b_q, W_k, b_k, W_class, undo=1.0):
        # Eq. 10, rows are queries.
        logits = undo * (e @ W_q.T + b_q) @ (e @ W_k.T + b_k).T / np.sqrt(d)
        alpha = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        return (alpha @ (e * [0, 1, 0, 0]) @ W_class)[0]

    one = np.array([1.0, 0, 0, 0])
    zero = np.zeros((d, d))
    eye = np.eye(d)
    truth = float(slalom.predict(slalom.ids))
    # As printed: the value is not where it is read.
    assert output(eye, 0, zero, one, W_class) == 0.0
    second = np.array([0.0, 1, 0, 0])
    mean = output(eye, 0, zero, one, second)
    assert mean == pytest.approx(slalom.v.mean(), abs=ALGEBRA)  # roles swapped: all keys alike
    assert abs(output(zero, one, eye, 0, second) - truth) > 1e-3  # sqrt(d) not undone
    assert output(zero, one, eye, 0, second, undo=np.sqrt(d)) == pytest.approx(truth, abs=ALGEBRA)


def test_to_weights_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match=r"^slalom: "):
        slalom_to_weights(Slalom([-1, 2], [0, 0], [0, 1]))
    with pytest.raises(ValueError, match="T_max"):
        slalom_to_weights(toy(0), T_max=1)


def without_positions(weights, cls_too=True):
    W_p = np.tile(weights.W_p[3], (weights.T_max, 1))
    if not cls_too:
        W_p[0] = weights.W_p[0]
    return dataclasses.replace(weights, W_p=W_p)


@pytest.mark.parametrize("C", [1, 2])
@pytest.mark.parametrize("cls_too", [True, False])
def test_one_head_without_positions_is_read_off_exactly(C, cls_too):
    weights = without_positions(random_weights(seed=1, K=1, C=C, T_max=13, biases=True), cls_too)
    readoff = slalom_from_weights(weights, gamma=1.0)
    assert readoff.exact and readoff.mse == 0 and readoff.r2 == 1 and readoff.slalom.gamma == 1.0
    assert readoff.slalom.v.ndim == (1 if C == 1 else 2)  # one output has one value per token
    for tokens in ([], [7], [3, 9, 3], list(range(2, 14))):
        expected = predict(weights, tokens)
        got = readoff.predict(tokens).reshape(C)
        np.testing.assert_allclose(got, expected, rtol=0, atol=ALGEBRA)
    with pytest.raises(ValueError, match=r"^tokens: "):
        readoff.sequence(range(13))


def test_reading_off_undoes_building():
    slalom = toy(10)
    readoff = slalom_from_weights(slalom_to_weights(slalom, T_max=9))
    at = readoff.slalom.index(slalom.ids)
    np.testing.assert_allclose(readoff.slalom.v[at], slalom.v, rtol=0, atol=ALGEBRA)
    s = readoff.slalom.s[at]
    np.testing.assert_allclose(s - s.mean(), slalom.s, rtol=0, atol=ALGEBRA)


def test_several_heads_are_a_mean_of_slaloms():
    weights = without_positions(random_weights(seed=2, K=3, T_max=13))
    readoff = slalom_from_weights(weights)
    assert (
        readoff.slalom is None
        and not readoff.exact
        and len(readoff.heads) == 3
        and np.isnan(readoff.mse)
    )
    with pytest.raises(ValueError, match=r"^slalom: "):
        readoff.predict([5])
    seen = readoff.sequence([5, 8, 5])
    mean = np.mean([head.predict(seen) for head in readoff.heads])
    assert mean == pytest.approx(predict(weights, [5, 8, 5])[0], abs=ALGEBRA)


def test_positions_make_one_slalom_per_document():
    weights = random_weights(seed=3, K=2, C=2, T_max=13)
    readoff = slalom_from_weights(weights, [5, 8, 5, 9], num_samples=200)
    assert readoff.by_position
    mean = np.mean([head.predict(np.arange(13)) for head in readoff.heads], axis=0)
    np.testing.assert_allclose(mean, predict(weights, [5, 8, 5, 9]), rtol=0, atol=ALGEBRA)
    with pytest.raises(ValueError, match=r"^tokens: "):
        slalom_from_weights(weights)
    with pytest.raises(ValueError, match=r"^tokens: "):
        slalom_from_weights(weights, [])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::attn_closed_form.SlalomWarning")
def test_best_slalom_of_a_document_and_its_fidelity():
    weights = random_weights(seed=4, K=3, T_max=40, d_e=12)
    tokens = np.random.default_rng(0).integers(2, 50, size=25)
    readoff = slalom_from_weights(weights, tokens)
    assert 0.8 < readoff.r2 < 1 and not readoff.exact
    # The fidelity is of samples that were not fitted: measure it again on others.
    rng = np.random.default_rng(123)
    documents = [
        np.where(rng.random(25) < rng.integers(11) / 25, weights.unk, tokens) for _ in range(400)
    ]
    f = predict_many(weights, documents)[:, 0]
    error = f - [readoff.predict(d) for d in documents]
    assert np.mean(error**2) < 3 * readoff.mse
    # Two heads that agree are one, and a fit must find that nothing is lost.
    one = without_positions(random_weights(seed=5, K=1, T_max=20))
    per_head = ("W_q", "W_k", "W_v", "W_l", "b_q", "b_k", "b_v")
    twin = {name: np.concatenate([a, a]) for name, a in one.arrays().items() if name in per_head}
    same = slalom_from_weights(dataclasses.replace(one, **twin), [4, 9, 17, 4, 6, 30, 31])
    assert same.r2 == pytest.approx(1, abs=1e-9)


def test_a_model_with_room_for_one_token_is_read_off():
    """T_max = 2 is the smallest: [CLS] and one token."""
    weights = random_weights(seed=1, K=1, T_max=2)
    assert slalom_from_weights(weights).predict([7]) == pytest.approx(predict(weights, [7]))


def test_weights_without_room_for_a_document_are_refused():
    with pytest.raises(ValueError, match=r"^weights: "):
        slalom_from_weights(random_weights(seed=1, T_max=1))

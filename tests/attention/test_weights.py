import dataclasses
import pickle

import numpy as np
import pytest

from attn_closed_form import AttentionWeights, predict
from attn_closed_form.attention.weights import BIASES, WEIGHT_AXES
from tests.strategies import PRIMES, make_weights

ARRAYS = make_weights(PRIMES, seed=3).arrays()
REQUIRED = [name for name in WEIGHT_AXES if name not in BIASES]


def test_sizes_are_read_off_the_shapes():
    weights = AttentionWeights(**ARRAYS)
    assert (
        weights.D,
        weights.d_e,
        weights.T_max,
        weights.K,
        weights.d_att,
        weights.d_out,
        weights.C,
    ) == PRIMES
    assert (
        repr(weights)
        == "AttentionWeights(D=17, d_e=7, T_max=13, K=2, d_att=3, d_out=5, C=1, cls=0, unk=1)"
    )


def test_biases_default_to_zero():
    weights = AttentionWeights(**{name: ARRAYS[name] for name in REQUIRED})
    for name in BIASES:
        assert getattr(weights, name).shape == ARRAYS[name].shape
        assert not getattr(weights, name).any()


def test_arrays_are_own_read_only_float64_copies():
    source = {name: array.astype(np.float32) for name, array in ARRAYS.items()}
    weights = AttentionWeights(**source)
    source["W_e"][:] = 7
    for name, array in weights.arrays().items():
        assert array.dtype == np.float64 and array.flags.c_contiguous
        assert np.array_equal(array, ARRAYS[name].astype(np.float32))
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    for table in weights.collapse:
        assert not table.flags.writeable


def test_fields_cannot_be_set():
    with pytest.raises(AttributeError):
        AttentionWeights(**ARRAYS).W_e = ARRAYS["W_e"]


def test_the_constructor_does_not_freeze_its_arguments():
    source = {name: array.copy() for name, array in ARRAYS.items()}
    AttentionWeights(**source)
    assert all(array.flags.writeable for array in source.values())


@pytest.mark.parametrize("name", WEIGHT_AXES)
def test_wrong_number_of_axes(name):
    with pytest.raises(ValueError, match=rf"^{name}: "):
        AttentionWeights(**{**ARRAYS, name: ARRAYS[name][None]})


@pytest.mark.parametrize(
    ("name", "axis"),
    [(name, axis) for name, axes in WEIGHT_AXES.items() for axis in range(len(axes))],
)
def test_wrong_length_names_an_array_what_was_expected_and_what_came(name, axis):
    length = ARRAYS[name].shape[axis]
    wrong = np.repeat(ARRAYS[name], 2, axis=axis)
    alone = WEIGHT_AXES[name][axis] in (
        "D",
        "T_max",
    )  # axes that belong to one array: any length is right
    if alone:
        AttentionWeights(**{**ARRAYS, name: wrong})
        return
    with pytest.raises(ValueError, match=r"^\w+: expected shape .*, got ") as caught:
        AttentionWeights(**{**ARRAYS, name: wrong})
    assert str(length) in str(caught.value) and str(2 * length) in str(caught.value)


@pytest.mark.parametrize("name", WEIGHT_AXES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite(name, value):
    broken = ARRAYS[name].copy()
    broken.flat[-1] = value
    where = tuple(n - 1 for n in broken.shape)
    with pytest.raises(ValueError, match=rf"^{name}: ") as caught:
        AttentionWeights(**{**ARRAYS, name: broken})
    assert str(where) in str(caught.value)


@pytest.mark.parametrize("name", WEIGHT_AXES)
def test_empty_axis(name):
    with pytest.raises(ValueError, match=rf"^{name}: "):
        AttentionWeights(**{**ARRAYS, name: ARRAYS[name][..., :0]})


@pytest.mark.parametrize(
    "wrong", [np.array(["a"]), np.array([1j]), np.array([None]), [[1.0], [1.0, 2.0]], None]
)
def test_arrays_that_are_no_numbers(wrong):
    with pytest.raises(ValueError, match="W_v"):
        AttentionWeights(**{**ARRAYS, "W_v": wrong})


@pytest.mark.parametrize("name", ["cls", "unk"])
@pytest.mark.parametrize("value", [-1, 17, 1.0, "0", None, True])
def test_special_ids(name, value):
    with pytest.raises(ValueError, match=rf"^{name}: "):
        AttentionWeights(**ARRAYS, **{name: value})


def test_default_unk_needs_two_tokens():
    one_token = {**ARRAYS, "W_e": ARRAYS["W_e"][:1]}
    with pytest.raises(ValueError, match="unk"):
        AttentionWeights(**one_token)
    assert predict(AttentionWeights(**one_token, unk=0), [0]).shape == (1,)


def test_pickling_leaves_the_tables_behind():
    weights = AttentionWeights(**ARRAYS)
    expected = predict(weights, [3, 5])
    bare = len(pickle.dumps(AttentionWeights(**ARRAYS)))
    assert len(pickle.dumps(weights)) == bare
    assert np.array_equal(predict(pickle.loads(pickle.dumps(weights)), [3, 5]), expected)


def test_a_pickle_comes_back_frozen_and_read_only():
    weights = pickle.loads(pickle.dumps(AttentionWeights(**ARRAYS)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        weights.cls = 1
    for name, array in weights.arrays().items():
        assert not array.flags.writeable, name


def test_torch_tensors_of_any_kind_are_arrays():
    torch = pytest.importorskip("torch", reason="needs torch")
    arrays = make_weights(PRIMES, seed=3).arrays()
    for make in (
        torch.nn.Parameter,
        lambda tensor: tensor.float().requires_grad_(),
        lambda tensor: tensor.to(torch.bfloat16),
    ):
        tensors = {name: make(torch.tensor(array)) for name, array in arrays.items()}
        weights = AttentionWeights(**tensors)
        for name, tensor in tensors.items():
            assert np.array_equal(getattr(weights, name), tensor.detach().double().numpy()), name


def test_finite_weights_whose_products_overflow_are_named():
    weights = make_weights(PRIMES, seed=3)
    huge = dataclasses.replace(weights, W_q=weights.W_q * 1e160, W_k=weights.W_k * 1e160)
    with pytest.raises(
        ValueError,
        match="weights",
    ):
        predict(huge, [2, 3])

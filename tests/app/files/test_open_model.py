import io
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from attn_closed_form import predict
from attn_closed_form.app.files import open_model
from attn_closed_form.app.files.arrays import write_arrays
from attn_closed_form.app.files.open_model import from_torch_state_dict, load_weights, save_weights
from attn_closed_form.attention import sinusoidal_positions
from attn_closed_form.attention.weights import BIASES, WEIGHT_AXES
from tests.strategies import PRIMES, make_weights
from tests.tolerances import assert_algebraic

WEIGHTS = make_weights(PRIMES._replace(C=3), seed=5, cls=4, unk=2)
SUFFIXES = [".npz", ".safetensors"]


def contents(weights=WEIGHTS):
    return open_model.weights_to_arrays(weights)


def write(path, arrays):
    """The file as a foreign tool would write it, without our checks."""
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        safetensors.numpy.save_file(arrays, path)
    return path


def assert_same(got, expected):
    assert (got.cls, got.unk) == (expected.cls, expected.unk)
    for name, array in expected.arrays().items():
        assert np.array_equal(getattr(got, name), array), name


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_round_trip_is_exact(tmp_path, suffix):
    path = tmp_path / f"model{suffix}"
    save_weights(WEIGHTS, path)
    assert_same(load_weights(path), WEIGHTS)
    assert_same(load_weights(str(path)), WEIGHTS)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("layout", ["fortran", "transposed view", "strided view", "reversed view"])
def test_arrays_that_are_not_contiguous(tmp_path, suffix, layout):
    make = {
        "fortran": np.asfortranarray,
        "transposed view": lambda a: np.ascontiguousarray(a.T).T,
        "strided view": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
        "reversed view": lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1],
    }[layout]
    arrays = {name: make(array) if array.ndim else array for name, array in contents().items()}
    if layout != "fortran":
        assert not arrays["W_e"].flags.c_contiguous
    path = tmp_path / f"model{suffix}"
    write_arrays(arrays, path)
    assert_same(load_weights(path), WEIGHTS)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_float32_files_and_files_without_biases(tmp_path, suffix):
    arrays = {
        name: a.astype(np.float32) if a.ndim else a
        for name, a in contents().items()
        if name not in BIASES
    }
    got = load_weights(write(tmp_path / f"model{suffix}", arrays))
    assert np.array_equal(got.W_v, WEIGHTS.W_v.astype(np.float32))
    assert not got.b_q.any()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "missing", [name for name in (*WEIGHT_AXES, "cls", "unk") if name not in BIASES]
)
def test_a_missing_array(tmp_path, suffix, missing):
    arrays = contents()
    del arrays[missing]
    path = write(tmp_path / f"model{suffix}", arrays)
    with pytest.raises(
        ValueError, match=rf"model\{suffix}: expected an array '{missing}', got only"
    ):
        load_weights(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_extra_array(tmp_path, suffix):
    path = write(tmp_path / f"model{suffix}", {**contents(), "W_x": np.zeros(2)})
    with pytest.raises(ValueError, match=r"unexpected array 'W_x'; expected"):
        load_weights(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_the_constructor_refuses_is_refused_with_the_name_of_the_file(tmp_path, suffix):
    for name, wrong, message in [
        ("W_k", np.zeros((2, 3, 8)), r"W_k: expected shape .*got \(2, 3, 8\)"),
        ("W_p", np.full((13, 7), np.nan), r"W_p: expected finite"),
        ("cls", np.array(99), r"cls: expected an integer in 0\.\.16, got 99"),
        ("unk", np.array(1.0), r"unk: expected one integer, got float64"),
        ("unk", np.array([1]), r"unk: expected one integer, got int64 of shape \(1,\)"),
    ]:
        path = write(tmp_path / f"model{suffix}", {**contents(), name: wrong})
        with pytest.raises(ValueError, match=rf"model\{suffix}: {message}"):
            load_weights(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_truncation_is_an_error(tmp_path, suffix):
    path = tmp_path / f"model{suffix}"
    save_weights(WEIGHTS, path)
    whole = path.read_bytes()
    for length in [0, 1, 8, 100, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=rf"model\{suffix}: expected a readable "):
            load_weights(path)


def test_damage_inside_an_npz_is_noticed(tmp_path):
    path = write(tmp_path / "model.npz", contents())
    whole = bytearray(path.read_bytes())
    where = whole.find(WEIGHTS.W_e.tobytes()[:64])
    assert where > 0
    whole[where] ^= 1
    path.write_bytes(whole)
    with pytest.raises(ValueError, match=r"model\.npz: expected a readable \.npz file: Bad CRC"):
        load_weights(path)


def test_a_member_of_the_archive_that_is_no_array(tmp_path):
    path = write(
        tmp_path / "model.npz", {name: a for name, a in contents().items() if name != "cls"}
    )
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("cls", b"0")
    with pytest.raises(ValueError, match=r"model\.npz: .*'cls' is not an array"):
        load_weights(path)


class Bomb:
    """Unpickling this makes a file: the proof that somebody did."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (open, (str(self.target), "w"))


def pickled_npz(bomb, path):
    """A .npz whose W_e is an object array."""
    array = np.empty((1, 1), dtype=object)
    array[0, 0] = bomb
    np.savez(path, allow_pickle=True, **{**contents(), "W_e": array})


def pickled_bytes(bomb, path):
    """A bare pickle under the name of a .npz."""
    path.write_bytes(pickle.dumps({"W_e": bomb}))


def pickled_npy(bomb, path):
    """A single pickled array, without an archive, under the name of a .npz."""
    array = np.empty(1, dtype=object)
    array[0] = bomb
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    path.write_bytes(buffer.getvalue())


@pytest.mark.parametrize("forge", [pickled_npz, pickled_bytes, pickled_npy])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_pickle_is_executed(tmp_path, forge, suffix):
    evidence = tmp_path / "executed"
    path = tmp_path / "model.npz"
    forge(Bomb(evidence), path)
    path = path.rename(tmp_path / f"model{suffix}")
    with pytest.raises(ValueError, match=rf"model\{suffix}: expected a readable "):
        load_weights(path)
    assert not evidence.exists()


def test_the_bomb_is_real(tmp_path):
    evidence = tmp_path / "executed"
    path = tmp_path / "model.npz"
    pickled_npz(Bomb(evidence), path)
    with np.load(path, allow_pickle=True) as archive:
        archive["W_e"][0, 0].close()
    assert evidence.exists()


def test_object_arrays_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="W_e: expected an array of plain data, got dtype object"):
        write_arrays({"W_e": np.array([None])}, tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["model", "model.pt", "model.npy", "model.npz.bak"])
def test_wrong_suffix(tmp_path, name):
    for act in (load_weights, lambda path: save_weights(WEIGHTS, path)):
        with pytest.raises(
            ValueError, match=r"expected a file name ending in \.npz or \.safetensors, got"
        ):
            act(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_such_file(tmp_path, suffix):
    with pytest.raises(FileNotFoundError, match="no such file"):
        load_weights(tmp_path / f"model{suffix}")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("interruption", [OSError("disk full"), KeyboardInterrupt()])
def test_an_interrupted_save_leaves_the_old_file_and_nothing_else(
    tmp_path, monkeypatch, suffix, interruption
):
    path = tmp_path / f"model{suffix}"
    save_weights(WEIGHTS, path)
    before = path.read_bytes()

    def interrupted(*_):
        raise interruption

    monkeypatch.setattr(os, "fsync", interrupted)
    for target in (path, tmp_path / f"new{suffix}"):
        with pytest.raises(type(interruption)):
            save_weights(make_weights(PRIMES, seed=6), target)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def state_dict(weights, bias=True):
    """The authors' names for `weights`."""
    state = {"embedding.weight": weights.W_e}
    for i in range(weights.K):
        for name, letter in open_model.LETTERS.items():
            state[f"heads.{i}.{name}.weight"] = getattr(weights, f"W_{letter}")[i]
            if bias:
                if letter == "l":
                    b = weights.b_l
                else:
                    b = getattr(weights, f"b_{letter}")[i]
                state[f"heads.{i}.{name}.bias"] = b
    return state


def test_state_dict():
    got = from_torch_state_dict(state_dict(WEIGHTS), W_p=WEIGHTS.W_p, cls=4, unk=2)
    for name, array in WEIGHTS.arrays().items():
        if name != "b_l":
            assert np.array_equal(getattr(got, name), array), name
    assert_algebraic(got.b_l, WEIGHTS.b_l)
    assert not from_torch_state_dict(state_dict(WEIGHTS, bias=False), T_max=13).b_q.any()


def test_state_dict_biases_of_the_heads_are_averaged():
    state = state_dict(WEIGHTS)
    state["heads.0.classifier.bias"] = np.array([1.0, 2.0, 3.0])
    state["heads.1.classifier.bias"] = np.array([3.0, 6.0, 9.0])
    assert np.array_equal(from_torch_state_dict(state, T_max=13).b_l, [2.0, 4.0, 6.0])


def test_state_dict_makes_the_authors_positions():
    got = from_torch_state_dict(state_dict(WEIGHTS), T_max=13)
    assert np.array_equal(got.W_p, sinusoidal_positions(13, 7, base=10000.0))
    assert np.array_equal(
        from_torch_state_dict(state_dict(WEIGHTS), T_max=13, base=None).W_p, WEIGHTS.W_p
    )


class Tensor:
    """The part of a torch tensor that the loader touches."""

    def __init__(self, array):
        self.array = array
        self.dtype = "torch.float64"

    def detach(self):
        return self

    cpu = detach

    def numpy(self):
        return self.array


def test_state_dict_of_tensors():
    state = {name: Tensor(array) for name, array in state_dict(WEIGHTS).items()}
    assert np.array_equal(from_torch_state_dict(state, T_max=13).W_l, WEIGHTS.W_l)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("embedding.weight"), r"expected weights 'embedding\.weight', got only"),
        (
            lambda s: s.pop("heads.0.query.weight"),
            r"expected weights 'heads\.0\.query\.weight', got only",
        ),
        (lambda s: s.pop("heads.1.key.bias"), r"expected weights 'heads\.1\.key\.bias', got only"),
        (
            lambda s: s.update({"heads.99999999999.query.weight": np.zeros((3, 7))}),
            r"expected weights 'heads\.2\.query",
        ),
        (
            lambda s: s.update({"heads.3.query.weight": np.zeros((3, 7))}),
            r"expected weights 'heads\.2\.query\.weight'",
        ),
        (
            lambda s: s.update({"encoder.weight": np.zeros(2)}),
            r"has weights that .* does not have: encoder\.weight",
        ),
        (
            lambda s: s.update({"heads.0.query.scale": np.zeros(2)}),
            r"has weights .*: heads\.0\.query\.scale",
        ),
        (
            lambda s: s.update({"heads.1.value.weight": np.zeros((5, 8))}),
            r"heads\.1\.value\.weight: expected shape",
        ),
        (
            lambda s: s.update({"heads.1.value.weight": "no"}),
            r"expected weights 'heads\.1\.value\.weight', got only",
        ),
    ],
)
def test_state_dict_with_wrong_keys(change, message):
    state = state_dict(WEIGHTS)
    change(state)
    with pytest.raises(ValueError, match=rf"^state: {message}"):
        from_torch_state_dict(state, T_max=13)


def test_state_dict_without_heads():
    with pytest.raises(ValueError, match="got no heads"):
        from_torch_state_dict({"embedding.weight": WEIGHTS.W_e})


def test_state_dict_shapes_are_checked_across_fields():
    state = state_dict(WEIGHTS)
    state["embedding.weight"] = np.zeros((17, 6))
    with pytest.raises(
        ValueError, match=r"W_q: expected shape \(K, d_att, d_e=6\), got \(2, 3, 7\)"
    ):
        from_torch_state_dict(state, T_max=13)


def authors_output(state, ids, positions, cls_at, scaled, output):
    """The authors' forward pass, head by head; ids (T,) with [CLS] at `cls_at`."""
    e = state["embedding.weight"][ids] + positions
    heads = []
    for i in range(WEIGHTS.K):
        q, k, v, last = (
            state[f"heads.{i}.{name}.weight"] for name in ("query", "key", "value", "classifier")
        )
        logits = (q @ e[cls_at]) @ (k @ e.T)
        g = np.exp(logits / np.sqrt(len(q)) if scaled else logits)
        heads.append(last @ (v @ e.T) @ (g / g.sum()))
    return np.mean(heads, axis=0)[output]


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("cls_at", [0, 3])
def test_what_the_state_dict_does_not_say_are_arguments(scaled, positions, cls_at):
    state = state_dict(WEIGHTS, bias=False)
    T_max = 11
    if positions:
        W_p = sinusoidal_positions(T_max, WEIGHTS.d_e, 10000.0)
    else:
        W_p = np.zeros((T_max, WEIGHTS.d_e))
    weights = from_torch_state_dict(
        state, T_max=T_max, cls=4, unk=2, scale=scaled, pos=positions, cls_position=cls_at
    )
    tokens = [6, 1, 5, 6, 3]
    ids = np.insert(np.r_[tokens, [2] * (T_max - 1 - len(tokens))], cls_at, 4)
    expected = [authors_output(state, ids, W_p, cls_at, scaled, c) for c in range(WEIGHTS.C)]
    assert_algebraic(predict(weights, tokens), expected, np.abs(expected).max())
    plain = from_torch_state_dict(state, T_max=T_max, cls=4, unk=2)
    if not scaled or not positions or cls_at:
        assert np.abs(predict(plain, tokens) - expected).max() > 1e-6


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"state": Path("absent.pt")}, FileNotFoundError, r"absent\.pt: no such file"),
        ({"T_max": 6.0}, ValueError, "T_max: expected an integer of at least 1, got 6.0"),
        (
            {"T_max": 9, "W_p": WEIGHTS.W_p},
            ValueError,
            "T_max: expected 13, the rows of W_p, got 9",
        ),
        ({"W_p": WEIGHTS.W_p[0]}, ValueError, r"W_p: expected shape \(T_max, 7\), got \(7,\)"),
        (
            {"cls_position": 13, "T_max": 13},
            ValueError,
            r"cls_position: expected an integer in 0\.\.12, got 13",
        ),
        (
            {"cls_position": 1.0, "T_max": 13},
            ValueError,
            "cls_position: expected an integer .*, got 1.0",
        ),
    ],
)
def test_arguments_of_the_state_dict_that_cannot_be(arguments, error, message):
    with pytest.raises(error, match=message):
        from_torch_state_dict(**({"state": state_dict(WEIGHTS)} | arguments))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_missing_folder_is_named(tmp_path, suffix):
    with pytest.raises(
        FileNotFoundError,
        match=rf"nowhere.model{suffix}: expected a file name in an existing folder",
    ):
        save_weights(WEIGHTS, tmp_path / "nowhere" / f"model{suffix}")

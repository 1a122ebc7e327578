from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_closed_form import Bag, load_bag
from attn_closed_form.app.files.hdf5 import FILTERS
from tests.profiles import mostly_slow

N = 7
D = 5
FEATURES = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
COORDS = np.array([[0, 0], [512, 0], [1024, 0], [0, 512], [512, 512], [9216, 0], [9216, 512]])


def write_h5(path: Path, **datasets: Any) -> None:
    h5py = pytest.importorskip("h5py", reason="HDF5 files need h5py (extra bags)")
    attributes = datasets.pop("attrs", {})
    with h5py.File(path, "w") as file:
        for name, value in datasets.items():
            file[name] = value
        for owner, values in attributes.items():
            (file if owner == "" else file[owner]).attrs.update(values)


def test_clam(tmp_path: Path) -> None:
    path = tmp_path / "slide_7.h5"
    attrs = {
        "coords": {
            "patch_size": 256,
            "patch_level": 1,
            "downsample": np.array([2.0, 2.0]),
            "name": "slide 7",
        }
    }
    write_h5(path, features=FEATURES, coords=COORDS, attrs=attrs)
    bag = load_bag(path)
    assert np.array_equal(bag.features, FEATURES) and bag.features.dtype == np.float32
    assert np.array_equal(bag.coords, COORDS)
    assert bag.patch_size == 512.0 and bag.attrs["name"] == "slide 7"


def test_trident_three_axes(tmp_path: Path) -> None:
    path = tmp_path / "slide.h5"
    attrs = {
        "coords": {"patch_size_level0": 512, "level0_magnification": 40, "target_magnification": 20}
    }
    write_h5(path, features=FEATURES[None], coords=COORDS[None], attrs=attrs)
    bag = load_bag(path)
    assert bag.features.shape == (N, D) and bag.coords is not None and bag.coords.shape == (N, 2)
    assert (
        bag.patch_size == 512.0
        and bag.attrs["level0_magnification"] == 40
        and bag.attrs["name"] == "slide"
    )


def test_features_of_one_number(tmp_path: Path) -> None:
    write_h5(tmp_path / "slide.h5", features=FEATURES[:, :1], coords=COORDS)
    assert np.array_equal(load_bag(tmp_path / "slide.h5").features, FEATURES[:, :1])


def test_stamp(tmp_path: Path) -> None:
    path = tmp_path / "slide.h5"
    attrs = {"": {"unit": "um", "tile_size_um": 256.0, "tile_size_px": 224}}
    write_h5(path, feats=FEATURES.astype(np.float16), coords=COORDS / 2.0, attrs=attrs)
    bag = load_bag(path)
    assert (
        bag.features.dtype == np.float16 and bag.patch_size == 256.0 and bag.attrs["unit"] == "um"
    )


def test_npy_npz_safetensors(tmp_path: Path) -> None:
    np.save(tmp_path / "bag.npy", FEATURES)
    assert np.array_equal(load_bag(tmp_path / "bag.npy").features, FEATURES)
    np.savez(
        tmp_path / "bag.npz",
        feats=FEATURES,
        coords=COORDS,
        ids=np.array(list("abcdefg")),
        regions=[1] * 3 + [0] * 4,
    )
    bag = load_bag(tmp_path / "bag.npz")
    assert (
        bag.ids == tuple("abcdefg")
        and bag.regions is not None
        and bag.regions.tolist() == [1, 1, 1, 0, 0, 0, 0]
    )
    np.savez(tmp_path / "odd.npz", my_vectors=FEATURES, coords=COORDS)
    # The only other matrix.
    assert np.array_equal(load_bag(tmp_path / "odd.npz").features, FEATURES)
    assert np.array_equal(load_bag(tmp_path / "odd.npz", features="my_vectors").features, FEATURES)
    safetensors = pytest.importorskip(
        "safetensors.numpy", reason="the safetensors package writes the file"
    )
    safetensors.save_file({"features": FEATURES}, tmp_path / "bag.safetensors")
    assert np.array_equal(load_bag(tmp_path / "bag.safetensors").features, FEATURES)


def test_pt(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch writes the file (extra bench)")
    torch.save(torch.from_numpy(FEATURES), tmp_path / "bag.pt")
    assert np.array_equal(load_bag(tmp_path / "bag.pt").features, FEATURES)
    torch.save(
        {"feats": torch.from_numpy(FEATURES)[None], "coords": torch.from_numpy(COORDS)},
        tmp_path / "both.pt",
    )
    both = load_bag(tmp_path / "both.pt")
    assert np.array_equal(both.features, FEATURES) and np.array_equal(both.coords, COORDS)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.h5", b"no HDF5", "expected a readable HDF5 file"),
        ("a.npy", b"no array", "expected a readable .npy file"),
        ("a.npz", b"PK\x03\x04", "expected a readable .npz file"),
        ("a.pt", b"nothing", "expected a readable PyTorch file"),
        ("a.safetensors", b"nothing", "expected a readable .safetensors file"),
        ("a.csv", b"1,2", "expected a bag in a file ending in .h5"),
        ("a.npy", "vector", r"features: expected shape \(n, D\)"),
        ("a.npy", "text", "features: expected an array of real numbers, got dtype <U1"),
        ("a.npz", "two matrices", "expected an array called features or feats, got only"),
        (
            "a.npz",
            "coords of another bag",
            "coords: ",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    name: str, content: bytes | str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else _wrong(content))
    if name.endswith(".h5"):
        pytest.importorskip("h5py", reason="HDF5 files need h5py (extra bags)")
    with pytest.raises(ValueError, match=message) as caught:
        load_bag(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def _wrong(kind: str) -> bytes:
    buffer = io.BytesIO()
    if kind == "vector":
        np.save(buffer, np.ones(3))
    elif kind == "text":
        np.save(buffer, np.array([["a", "b"]]))
    elif kind == "two matrices":
        np.savez(buffer, a=FEATURES, b=FEATURES)
    else:
        np.savez(buffer, features=FEATURES, coords=COORDS[:3])
    return buffer.getvalue()


@pytest.mark.slow
def test_truncated_h5_files(tmp_path: Path) -> None:
    write_h5(tmp_path / "whole.h5", features=FEATURES, coords=COORDS)
    data = (tmp_path / "whole.h5").read_bytes()
    for part in range(1, 20):
        path = tmp_path / "cut.h5"
        path.write_bytes(data[: len(data) * part // 20])
        with pytest.raises(ValueError, match=r"cut\.h5: expected"):
            load_bag(path)


def outside(h5py: Any, file: Any, folder: Path, kind: str) -> None:
    """A file whose features or names lie elsewhere, or claim more than they have."""
    if kind not in (
        "link",
        "soft link",
        "storage of features",
        "virtual",
        "claim",
        "chunk",
        "references",
    ):
        file["features"] = FEATURES
    if kind == "link":
        file["features"] = h5py.ExternalLink(str(folder / "private.h5"), "/features")
    elif kind == "soft link":
        file["features"] = h5py.SoftLink("/features")
    elif kind == "link of names":
        file["ids"] = h5py.ExternalLink(str(folder / "private.h5"), "/ids")
    elif kind == "storage of names":
        file.create_dataset(
            "ids", shape=(N,), dtype="S4", external=[(str(folder / "secret.txt"), 0, 4 * N)]
        )
    elif kind == "storage of features":
        file.create_dataset(
            "features", shape=(3, 8), dtype="u1", external=[(str(folder / "secret.txt"), 0, 24)]
        )
    elif kind == "virtual":
        layout = h5py.VirtualLayout(shape=(N, D), dtype="f4")
        layout[:] = h5py.VirtualSource(str(folder / "private.h5"), "features", shape=(N, D))
        file.create_virtual_dataset("features", layout)
    elif kind == "claim":
        file.create_dataset(
            "features", shape=(100_000, 8000), dtype="f4", chunks=(1000, 8000), compression="gzip"
        )
    elif kind == "chunk":
        file.create_dataset(
            "features", shape=(1, 8), maxshape=(None, 8), dtype="f8", chunks=(1 << 25, 8)
        )
    elif kind == "references":
        file.create_dataset("features", shape=(2, 3), dtype=h5py.vlen_dtype(np.float64))
    else:
        file.attrs["name"] = np.full(7000, 1.0)


@pytest.mark.parametrize(
    ("kind", "message"),
    mostly_slow(
        [
            ("link", "'features' is a link to another place"),
            ("storage of features", "'features' is stored in another file"),
            ("claim", "more than 100 times the file"),
            ("references", "'features' contains references or lists"),
            ("attribute", "attribute 'name' has more than 10000 bytes"),
            ("soft link", "'features' is a link to another place"),
            ("link of names", "'ids' is a link to another place"),
            ("storage of names", "'ids' is stored in another file"),
            ("virtual", "'features' is stored in another file"),
            ("chunk", "more than 100 times the file"),
        ],
        5,
    ),
)
def test_hdf5_files_reach_nothing_outside_and_claim_nothing_large(
    kind: str, message: str, tmp_path: Path
) -> None:
    h5py = pytest.importorskip("h5py", reason="HDF5 files need h5py (extra bags)")
    (tmp_path / "secret.txt").write_text("SECRET" * 20)
    write_h5(tmp_path / "private.h5", features=FEATURES, ids=np.array([b"patient"] * N))
    with h5py.File(tmp_path / "slide.h5", "w") as file:
        outside(h5py, file, tmp_path, kind)
    with pytest.raises(
        ValueError, match=rf"slide\.h5: expected a readable HDF5 file: .*{message}"
    ) as caught:
        load_bag(tmp_path / "slide.h5")
    assert "\n" not in str(caught.value) and "SECRET" not in str(caught.value)


def test_hdf5_attributes_and_names_that_are_used(tmp_path: Path) -> None:
    names = np.array(list("abcdefg"), dtype=object)
    write_h5(
        tmp_path / "a.h5", feats=FEATURES, ids=names, attrs={"": {"unit": "um", "anything": 3}}
    )
    bag = load_bag(tmp_path / "a.h5")
    assert bag.ids == tuple("abcdefg") and bag.attrs == {"name": "a", "unit": "um"}


def test_regions_from_coordinates_and_given() -> None:
    bag = Bag(FEATURES, COORDS)
    assert bag.patch_size == 512.0
    found = bag.region_numbers()  # squares of 16 x 16 patches of 512: 8192
    assert found is not None and found[0].tolist() == [0, 0, 0, 0, 0, 1, 1]
    assert bag.in_regions(1024).regions.tolist() == [0, 0, 1, 0, 0, 2, 2]  # type: ignore[union-attr]
    named = Bag(FEATURES, regions=np.array(list("bbaabbc"))).region_numbers()
    assert (
        named is not None
        and named[0].tolist() == [0, 0, 1, 1, 0, 0, 2]
        and named[1] == ("b", "a", "c")
    )
    assert Bag(FEATURES).region_numbers() is None
    with pytest.raises(ValueError, match="expected coordinates"):
        Bag(FEATURES).in_regions(3)


def test_subset_takes_everything_along() -> None:
    bag = Bag(FEATURES, COORDS, tuple("abcdefg"), {"name": "x"}, np.arange(N))
    part = bag.subset([4, 1])
    assert (
        part.ids == ("e", "b") and part.regions.tolist() == [4, 1] and part.attrs == {"name": "x"}
    )  # type: ignore[union-attr]
    assert np.array_equal(part.features, FEATURES[[4, 1]]) and np.array_equal(
        part.coords, COORDS[[4, 1]]
    )
    assert len(bag.subset(np.arange(N) > 4)) == 2


def test_the_side_of_a_patch_is_the_commonest_step_of_shifted_grids():
    """Pieces of tissue have grids of their own, shifted against each other."""
    coords = [[0, 0], [256, 0], [512, 0], [13, 99], [269, 99], [781, 99]]
    assert Bag(np.zeros((6, 2)), coords).patch_size == 256.0
    assert Bag(np.zeros((2, 2)), [[0, 0], [3, 5]]).patch_size is None


def test_instances_at_the_same_place_do_not_tell_the_side_of_a_patch():
    coords = [[0, 0], [0, 0], [0, 0], [0, 0], [256, 0]]
    assert Bag(np.zeros((5, 2)), coords).patch_size == 256.0


@pytest.mark.parametrize("name", ["patch_size_level0", "tile_size_um"])
def test_the_side_of_a_patch_that_the_file_states_goes_before_the_grid(name: str) -> None:
    """Patches may overlap, or have gaps between them."""
    attrs = {name: np.array([300.0]), "patch_size": 224, "downsample": 2.0}
    assert Bag(np.zeros((3, 2)), [[0, 0], [256, 0], [512, 0]], attrs=attrs).patch_size == 300.0


def test_the_filters_are_those_of_the_library() -> None:
    h5z = pytest.importorskip("h5py", reason="h5py is not installed").h5z
    names = ("DEFLATE", "SHUFFLE", "FLETCHER32", "SZIP", "NBIT", "SCALEOFFSET", "LZF")
    assert {getattr(h5z, f"FILTER_{name}") for name in names} == FILTERS


def test_a_slide_cannot_name_a_thumbnail(tmp_path: Path) -> None:
    """A report holds the picture that the attribute `thumbnail` names, so a file must not decide
    about it.
    """
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(tmp_path / "slide.h5", "w") as file:
        file["features"] = FEATURES
        file.attrs["thumbnail"] = file["features"].attrs["thumbnail"] = "private.png"
    assert set(load_bag(tmp_path / "slide.h5").attrs) == {"name"}

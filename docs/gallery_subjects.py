"""What the gallery explains: a long review, eight departments, a slide, a transformer, and a table
of reviews.

Every subject is made here, in seconds, so that anyone can make the same pictures. The models are
small and trained on made-up sentences: the pictures show what a report looks like, not how good a
model is. `pictures.py` draws them.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from attn_closed_form import (
    Bag,
    Explanations,
    TransformerClassifier,
    load_demo_model,
)
from benchmarks.bag_faithfulness import digit_slides
from jax_model import AttentionBagClassifier, AttentionTextClassifier
from tests.tiny_transformers import trained_bert

HERE = Path(__file__).parent
#: A review of some 500 words, with the line breaks of HTML that IMDB's reviews have.
REVIEW = HERE / "gallery" / "review.txt"
#: The review with another ending, for the comparison of two texts.
EDITED = "A slow start and a silly plot, and the actors are wonderful, but the ending is awful."

#: Eight departments that answer messages, and words of their messages.
DEPARTMENTS = {
    "billing": "invoice charged twice refund payment card amount tax receipt bank",
    "delivery": "parcel courier late arrived address tracking doorstep shipped box neighbor",
    "repair": "broken screen battery cracked technician warranty fix noise replace spare",
    "account": "password login email locked reset username verify profile code sign",
    "sales": "discount price offer quote buy upgrade bundle catalog order bulk",
    "returns": "return send back label wrong size exchange unopened policy item",
    "privacy": "data delete consent personal cookies share copy law record erase",
    "feedback": "friendly helpful thank rude staff store visit praise complaint service",
}
#: Words of every message.
EVERYDAY = "the a my your it was is i we please and but since for to of on yesterday week when can you"
#: The message to explain: mostly about an invoice, but also about a parcel and a broken screen.
MESSAGE = (
    "My parcel arrived late and the screen was cracked, but please fix the invoice first: my card was "
    "charged twice, the tax is wrong, and I need a refund and a receipt for the bank this week."
)


def departments() -> Explanations:
    """Explain the message with a classifier of eight departments."""
    rng = np.random.default_rng(0)
    texts = []
    labels = []
    for name, words in DEPARTMENTS.items():
        others = " ".join(
            DEPARTMENTS[other] for other in DEPARTMENTS if other != name
        )
        for _ in range(60):
            drawn = [
                *rng.choice(words.split(), size=4),
                *rng.choice(others.split(), size=3),
                *rng.choice(EVERYDAY.split(), size=8),
            ]
            texts.append(" ".join(rng.permutation(drawn)))
            labels.append(name)
    classifier = AttentionTextClassifier().fit(texts, labels)
    return classifier.model_.explain(MESSAGE)


def slide(folder: Path) -> Explanations:
    """Explain a slide of handwritten digits, some of them nines and threes, over a thumbnail."""
    training = digit_slides(400, target=9, against=3, share=0.06, seed=0)
    names = np.array(["more threes", "more nines"])
    network = AttentionBagClassifier(random_state=0)
    network.fit(training.bags, names[training.labels])
    slides = digit_slides(
        2, instances=(700, 800), target=9, against=3, share=0.06, seed=1
    )
    thumbnail = folder / "thumbnail.png"
    draw_thumbnail(
        slides.bags[1], slides.coords[1], slides.patch_size, thumbnail
    )
    bag = Bag(
        slides.bags[1],
        coords=slides.coords[1],
        attrs={
            "patch_size": slides.patch_size,
            "name": "a slide of digits",
            "thumbnail": str(thumbnail),
        },
    )
    return network.explain(bag, output="more nines")


def draw_thumbnail(tiles: Any, coords: Any, patch: int, path: Path) -> None:
    """Draw the digits of a slide in their places, eight pixels to a tile."""
    side = 8
    places = coords // patch
    columns, rows = places.max(axis=0) + 1
    picture = np.full((rows * side, columns * side), 255, dtype=np.uint8)
    for tile, (column, row) in zip(tiles, places, strict=True):
        ink = 255 - np.round(255 * tile.reshape(side, side))
        top = row * side
        left = column * side
        picture[top : top + side, left : left + side] = ink.astype(np.uint8)
    Image.fromarray(picture).save(path)


def transformer() -> Explanations:
    """Explain a sentence with a small BERT that is trained on random reviews."""
    model = TransformerClassifier(*trained_bert(), samples=2000)
    text = "The film was slow and boring, but the leads are wonderful together!"
    return model.explain(text)


def review() -> Explanations:
    """Explain the review of 500 words with the shipped model."""
    text = (HERE / "gallery" / "review.txt").read_text(encoding="utf-8").strip()
    return load_demo_model().explain(text)


def short_reviews(count: int = 240) -> list[str]:
    """Make short reviews of random words."""
    rng = np.random.default_rng(3)
    praise = "wonderful superb funny moving brilliant touching charming beautiful clever great"
    blame = (
        "dull awful boring silly terrible predictable slow bad pointless wooden"
    )
    parts = ["plot", "cast", "music", "ending", "script", "hero", "dialogue"]
    texts = []
    for _ in range(count):
        first, second, third = rng.choice(parts, 3, replace=False)
        good, better = rng.choice(praise.split(), 2, replace=False)
        bad, worse = rng.choice(blame.split(), 2, replace=False)
        sentences = [
            f"The {first} is {good}, the {second} is {better}, and only the {third} is {bad}.",
            f"What a {bad} {first}, and what a {worse} {second}, but the {third} is {good}.",
            f"I liked the {first}, which is {good}. The {second} is {better}, too!",
            f"The {first} is {bad} and the {second} {worse}. I left before the {third}.",
        ]
        texts.append(str(rng.choice(sentences)))
    return texts


def table_of_reviews(path: Path) -> None:
    """Write a table of short reviews."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text"])
        writer.writerows(enumerate(short_reviews()))

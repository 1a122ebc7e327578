"""Draw docs/bag-map.png, a slide of digits with attention and signed scores: `python
docs/bag_map.py`.

Slides are positive if more of their tiles show a nine than a three. A gated-attention network
learns that from labels of whole slides. Attention finds nines and threes alike; exact Shapley
values tell them apart.
"""

from pathlib import Path

import numpy as np

from attn_closed_form import Bag
from attn_closed_form.app.show.plots import heat_map
from benchmarks.bag_faithfulness import digit_slides
from jax_model import AttentionBagClassifier

PICTURE = Path(__file__).parent / "bag-map.png"


def main() -> None:
    """Train, explain one slide that the network has not seen, and draw it."""
    training = digit_slides(400, target=9, against=3, share=0.06, seed=0)
    names = np.array(["more threes", "more nines"])
    model = AttentionBagClassifier(random_state=0).fit(
        training.bags, names[training.labels]
    )
    slide = digit_slides(
        2, instances=(700, 800), target=9, against=3, share=0.06, seed=1
    )
    bag = Bag(
        slide.bags[1],
        coords=slide.coords[1],
        attrs={"patch_size": slide.patch_size, "name": "a slide of digits"},
    )
    found = model.explain(bag, ["shapley"], output="more nines")
    heat_map(found, PICTURE, dpi=100)


if __name__ == "__main__":
    main()

"""What the API says of a bag file: the signed map beside attention, and the strongest instances."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._types import Array
from ..explanations.explain import explain
from ..explanations.explanation import Explanations, shared_dict
from ..files.bags import load_bag
from ..models.protocol import Model
from ..show.bag_scores import Place, attention, place, strongest, tile_scores
from ..show.tiles import picture, png, rasterise, scale_end
from .fields import Refusal

MAX_BAG_BYTES = 512 * 1024 * 1024
TOP = 8


def bag_answer(model: Model, asked: Mapping[str, Any], data: bytes) -> dict[str, Any]:
    """Explain the bag in a file.

    Parameters
    ----------
    asked : `name` of the file, whose suffix says what it is, and optionally `output`
    data : its bytes
    """
    if "instances" not in model.groupings:
        raise Refusal(422, f"model: expected a classifier of bags, got {model!r}", "model")
    name = Path(str(asked.get("name") or "bag")).name
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"bag{Path(name).suffix.lower()[:12]}"
        path.write_bytes(data)
        try:
            found = explain(model, load_bag(path), ["shapley", "alpha-mean"], output=asked.get("output") or None)
        except (OSError, ValueError, TypeError, ImportError) as error:
            raise Refusal(422, str(error).replace(str(path), name), "name") from None
    e = found["shapley"]
    best, worst = strongest(e.scores, TOP)
    shared = {
        key: value for key, value in shared_dict(found.evidence).items() if key not in ("labels", "unknown", "spans")
    }
    return {
        **shared,
        "name": name,
        "instances": len(e.labels),
        "error": e.error,
        "strongest": [[e.labels[j], float(e.scores[j])] for j in (*best, *worst)],
        **_maps(found),
    }


def _maps(found: Explanations) -> dict[str, str | None]:
    try:
        where = place(found)
    except ValueError:  # a bag without coordinates has no map
        return {"map": None, "attention": None}
    looked = attention(found)
    return {
        "map": _image(where, tile_scores(found["shapley"]), signed=True),
        "attention": None if looked is None else _image(where, looked, signed=False),
    }


def _image(where: Place, scores: Array, signed: bool) -> str:
    drawn = png(picture(rasterise(where.coords, scores, where.patch_size), scale_end(scores), signed))
    return "data:image/png;base64," + base64.b64encode(drawn).decode()

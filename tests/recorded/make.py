"""Record what networks in torch say, so that tests without torch can hold the library to it.

`python -m tests.recorded.make` (with torch and transformers) writes, beside this file:

- layouts.npz: of every network in tests/app/models/layouts/networks.py its state dict, its logits
  on a bag and on sub-bags, and the gradient of its first two logits' difference (or of its only
  logit);
- clam.pt: the state dict of one of them, as `torch.save` writes it;
- transformer.npz: of a tiny BERT the logits of one text with every set of tokens deleted, masked or
  hidden, and how its tokenizer reads that text.

Weights are rounded to float16 so that the files stay small; everything is computed in float64 but
the BERT, in float32.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
LAYOUTS = HERE / "layouts.npz"
CLAM = HERE / "clam.pt"
TRANSFORMER = HERE / "transformer.npz"
INSTANCES = 13
SUB_BAGS = 12
TEXT = "The film was very good"
HIDDEN = -1


def bag(columns: int) -> np.ndarray[Any, Any]:
    """A bag of features, exact in float16."""
    return (
        np.random.default_rng(3)
        .normal(size=(INSTANCES, columns))
        .astype(np.float16)
        .astype(np.float64)
    )


def sub_bags() -> np.ndarray[Any, Any]:
    """Masks of sub-bags, none of them empty."""
    rng = np.random.default_rng(0)
    masks = rng.random((SUB_BAGS, INSTANCES)) < rng.random((SUB_BAGS, 1))
    masks[~masks.any(axis=1), 0] = True
    return masks


def answers(network: Any, columns: int) -> dict[str, np.ndarray[Any, Any]]:
    """Logits (C,), logits of the sub-bags (n, C) and the gradient (instances, columns) of a network
    in torch.
    """
    import torch

    from tests.app.models.layouts.networks import of_sub_bag

    x = bag(columns)
    with torch.no_grad():
        whole = network(torch.from_numpy(x)).numpy()
        masks = torch.from_numpy(sub_bags())
        parts = np.array([of_sub_bag(network, torch.from_numpy(x), mask).numpy() for mask in masks])
    leaf = torch.from_numpy(x).requires_grad_()
    logits = network(leaf)
    (logits[0] - logits[1] if len(logits) > 1 else logits[0]).backward()
    return {"logits": whole, "sub_bags": parts, "gradient": leaf.grad.numpy()}


def record_layouts() -> None:
    """Write layouts.npz and clam.pt."""
    import torch

    from tests.app.models.layouts import networks

    record: dict[str, Any] = {}
    for name in networks.CASES:
        case = networks.case(name)
        with torch.no_grad():
            for tensor in case.network.state_dict().values():
                tensor.copy_(tensor.half().double()) if tensor.is_floating_point() else None
        state = {key: tensor.numpy() for key, tensor in case.network.state_dict().items()}
        shapes = {key: array.shape for key, array in state.items()}
        record[f"{name}|about"] = json.dumps([case.layout, case.options, case.columns, shapes])
        record[f"{name}|weights"] = np.concatenate(
            [array.ravel() for array in state.values()]
        ).astype(np.float16)
        said = answers(case.network, case.columns)
        record[f"{name}|logits"] = np.vstack([said["logits"], said["sub_bags"]])
        record[f"{name}|gradient"] = said["gradient"]
        if name == "clam-sb":
            torch.save(case.network.state_dict(), CLAM)
    np.savez_compressed(LAYOUTS, **record)


def load_layouts() -> dict[str, dict[str, Any]]:
    """name -> layout, options, columns, state (float64), logits (C,), sub_bags (n, C), gradient
    (instances, columns)
    """
    found = {}
    with np.load(LAYOUTS) as file:
        for name in dict.fromkeys(key.split("|")[0] for key in file.files):
            layout, options, columns, shapes = json.loads(str(file[f"{name}|about"]))
            weights = file[f"{name}|weights"].astype(np.float64)
            ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])
            parts = zip(shapes.items(), np.split(weights, ends[:-1]), strict=True)
            found[name] = {
                "layout": layout,
                "options": options,
                "columns": columns,
                "state": {key: part.reshape(shape) for (key, shape), part in parts},
                "logits": file[f"{name}|logits"][0],
                "sub_bags": file[f"{name}|logits"][1:],
                "gradient": file[f"{name}|gradient"],
            }
    return found


def variants(ids: list[int], mask: int) -> list[list[int]]:
    """The ids with every set of tokens deleted, masked or hidden (-1)."""
    found = {}
    for k in range(2 ** len(ids)):
        present = [bool(k >> i & 1) for i in range(len(ids))]
        found[tuple(token for token, here in zip(ids, present, strict=True) if here)] = None
        for absent in (mask, HIDDEN):
            found[
                tuple(token if here else absent for token, here in zip(ids, present, strict=True))
            ] = None
    return [list(sequence) for sequence in found]


def record_transformer() -> None:
    """Write transformer.npz. Each sequence is given to the model alone, without padding."""
    import torch

    from tests.tiny_transformers import bert

    model, tokenizer = bert()
    reading = tokenizer(TEXT, add_special_tokens=False, return_offsets_mapping=True)
    ids = reading["input_ids"]
    whole = tokenizer(TEXT)["input_ids"]
    before = whole[: whole.index(ids[0])]
    after = whole[whole.index(ids[-1]) + 1 :]
    sequences = variants(ids, tokenizer.mask_token_id)
    logits = []
    for sequence in sequences:
        framed = torch.tensor([[*before, *sequence, *after]])
        seen = framed != HIDDEN
        with torch.inference_mode():
            found = model(
                input_ids=framed.where(seen, tokenizer.pad_token_id), attention_mask=seen.long()
            )
        logits.append(found.logits[0].numpy())
    about = {
        "ids": ids,
        "offsets": reading["offset_mapping"],
        "words": reading.word_ids(),
        "tokens": tokenizer.convert_ids_to_tokens(ids),
        "before": before,
        "after": after,
        "the": tokenizer("the", add_special_tokens=False)["input_ids"],
        "names": list(model.config.id2label.values()),
        "vocabulary": len(tokenizer),
        **{
            f"{name}_token_id": getattr(tokenizer, f"{name}_token_id")
            for name in ("mask", "pad", "unk")
        },
        "positions": model.config.max_position_embeddings,
    }
    padded = np.array(
        [sequence + [HIDDEN - 1] * (len(ids) - len(sequence)) for sequence in sequences],
        dtype=np.int16,
    )
    np.savez_compressed(
        TRANSFORMER, about=json.dumps(about), sequences=padded, logits=np.array(logits)
    )


if __name__ == "__main__":
    record_layouts()
    record_transformer()

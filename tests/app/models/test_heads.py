"""Head games: knock-outs, smallest knock-outs and Shapley values against attention computed by hand and by models."""

import itertools

import numpy as np
import pytest

from attn_closed_form import contrastive_reason, head_games
from attn_closed_form.app.models.heads import head_games_of_cache, head_games_of_layer
from tests import enumeration

HEADS = 3
QUERIES = 2
N = 7
E = 5
WIDTH = 11


def random_heads(seed=0, causal=False):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(HEADS, QUERIES, N))
    if causal:
        scores[:, 0, 4:] = -np.inf
    return scores, rng.normal(size=(HEADS, N, E)), rng.normal(size=E)


def output(scores, values, direction, head, query, removed):
    """What the head returns along the direction without the removed sources: softmax by hand."""
    keep = ~removed & (scores[head, query] > -np.inf)
    if not keep.any():
        return 0.0
    w = np.exp(scores[head, query, keep])
    return float(w @ (values[head, keep] @ direction) / w.sum())


@pytest.mark.parametrize("causal", [False, True])
def test_knock_outs_are_attention_without_the_sources(causal):
    scores, values, direction = random_heads(causal=causal)
    games = head_games(scores, values, direction)
    nobody = np.zeros(N, dtype=bool)
    for bits in itertools.product([False, True], repeat=N):
        removed = np.array(bits)
        change = games.knock_out(removed)
        for h, q in np.ndindex(HEADS, QUERIES):
            expected = output(scores, values, direction, h, q, removed) - output(
                scores, values, direction, h, q, nobody
            )
            assert change[h, q] == pytest.approx(expected, abs=1e-12)


def test_weights_and_scores_give_the_same_games():
    scores, values, direction = random_heads(causal=True)
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    removed = np.arange(N) % 2 == 0
    ours = head_games(weights, values, direction)
    theirs = head_games(scores, values, direction)
    np.testing.assert_allclose(ours.knock_out(removed), theirs.knock_out(removed), atol=1e-12)
    np.testing.assert_allclose(ours.shapley(), theirs.shapley(), atol=1e-8)
    forced = head_games(weights, values, direction, weights=False)
    assert not np.allclose(forced.values(), theirs.values())


@pytest.mark.parametrize("background", [None, [0, 3]])
def test_shapley_values_are_those_of_enumeration(background):
    scores, values, direction = random_heads(causal=True)
    games = head_games(scores, values, direction, background)
    phi = games.shapley(tol=1e-11)
    for h, q in np.ndindex(HEADS, QUERIES):
        game, players = games.game(h, q)
        np.testing.assert_allclose(phi[h, q, players], enumeration.shapley(game), atol=1e-9)
        others = np.setdiff1d(np.arange(N), players)
        assert (phi[h, q, others] == 0).all() and (
            background is None or set(background) <= set(others.tolist())
        )
        if background:
            empty = output(scores, values, direction, h, q, ~games.always)
        else:
            empty = 0.0
        assert phi[h, q].sum() == pytest.approx(games.values()[h, q] - empty, abs=1e-9)


def test_first_order_is_the_derivative():
    scores, values, direction = random_heads()
    step = 1e-6
    for j in range(N):
        moved = scores.copy()
        moved[:, :, j] += step
        change = (
            head_games(moved, values, direction).values()
            - head_games(scores, values, direction).values()
        )
        np.testing.assert_allclose(
            head_games(scores, values, direction).first_order()[..., j], change / step, atol=1e-5
        )


@pytest.mark.parametrize("threshold", [0.0, 0.4, -0.7])
@pytest.mark.parametrize("background", [None, [2]])
def test_smallest_knock_outs_are_smallest(threshold, background):
    for seed in range(5):
        scores, values, direction = random_heads(seed, causal=True)
        games = head_games(scores, values, direction, background)
        size, removed = games.smallest_knock_outs(threshold)
        side = np.sign(games.values() - threshold)
        for h, q in np.ndindex(HEADS, QUERIES):
            movable = np.flatnonzero((scores[h, q] > -np.inf) & ~games.always)
            best = -1
            for k in range(1, movable.size + 1):
                sets = (
                    np.isin(np.arange(N), chosen) for chosen in itertools.combinations(movable, k)
                )
                left = [r for r in sets if (~r & (scores[h, q] > -np.inf)).any()]
                if any(
                    (output(scores, values, direction, h, q, r) - threshold) * side[h, q] < 0
                    for r in left
                ):
                    best = k
                    break
            assert size[h, q] == best
            if best > 0:
                assert removed[h, q].sum() == best
                after = games.values()[h, q] + games.knock_out(removed[h, q])[h, q]
                assert (after - threshold) * side[h, q] < 0
                reason = contrastive_reason(games.game(h, q)[0], threshold)
                assert len(reason.players) == best


def test_directions_of_every_shape():
    scores, values, direction = random_heads()
    same = head_games(scores, values, direction)
    for shape in ((HEADS, E), (HEADS, QUERIES, E)):
        np.testing.assert_allclose(
            head_games(scores, values, np.broadcast_to(direction, shape)).u, same.u
        )
    np.testing.assert_allclose(head_games(scores, values @ direction).u, same.u)
    with pytest.raises(ValueError, match="scores_or_weights: expected"):
        head_games(scores[:2], values, direction)
    with pytest.raises(ValueError, match="no source can be removed"):
        head_games(scores, values, direction, background=range(N)).game(0, 0)


@pytest.mark.parametrize("groups", [1, HEADS])
def test_names_of_transformer_lens(groups):
    """Grouped queries have fewer value heads than heads; each is shared by the heads next to it."""
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(2, HEADS, N, N))
    v = rng.normal(size=(2, N, HEADS // groups, E))
    W_O = rng.normal(size=(HEADS, E, WIDTH))
    direction = rng.normal(size=WIDTH)
    cache = {"blocks.4.attn.hook_attn_scores": scores, "blocks.4.attn.hook_v": v}
    games = head_games_of_cache(cache, W_O, 4, direction, batch=1)
    w = np.exp(scores[1]) / np.exp(scores[1]).sum(axis=-1, keepdims=True)
    out = np.einsum("hqn,nhe,hed,d->hq", w, np.repeat(v[1], groups, axis=1), W_O, direction)
    np.testing.assert_allclose(games.values(), out, rtol=1e-10)


def small_model(family):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    sizes = {"vocab_size": 23, "max_position_embeddings": 17, "attn_implementation": "eager"}
    wide = {
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "intermediate_size": 20,
    }
    ends = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    if family == "BERT":
        return transformers.BertForSequenceClassification(
            transformers.BertConfig(**sizes, **wide)
        ).eval()
    if family == "GPT-2":
        config = transformers.GPT2Config(
            vocab_size=23, n_positions=17, n_embd=24, n_layer=2, n_head=6, **ends
        )
        config._attn_implementation = "eager"
        return transformers.GPT2LMHeadModel(config).eval()
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**sizes, **wide, num_key_value_heads=3, **ends)
    ).eval()


@pytest.mark.parametrize("family", ["BERT", "GPT-2", "Llama"])
@pytest.mark.parametrize("layer", [0, 1])
def test_layers_of_models(family, layer):
    """Summed over heads, f is the attention's output times the gradient, less what the bias adds."""
    model = small_model(family)
    import torch

    ids = torch.arange(3, 12)[None]
    paths = {
        "BERT": f"encoder.layer.{layer}.attention.output.dense",
        "GPT-2": f"h.{layer}.attn.c_proj",
    }
    module = model.base_model.get_submodule(paths.get(family, f"layers.{layer}.self_attn.o_proj"))

    def target(out):
        return out.logits.reshape(-1, out.logits.shape[-1])[-1, 1]

    games = head_games_of_layer(model, {"input_ids": ids}, layer, target, list(range(9)))
    kept = []
    hook = module.register_forward_hook(lambda _module, _args, out: kept.append(out))
    (gradient,) = torch.autograd.grad(target(model(input_ids=ids)), kept)
    hook.remove()
    bias = 0.0 if module.bias is None else module.bias
    expected = ((kept[0] - bias) * gradient)[0].sum(dim=1).detach().numpy()
    np.testing.assert_allclose(
        games.values().sum(axis=0), expected, atol=1e-5 * max(1.0, np.abs(expected).max())
    )
    assert games.s.shape == (6, 9, 9)


def test_what_a_layer_needs():
    model = small_model("BERT")
    import torch

    inputs = {"input_ids": torch.arange(3, 12)[None]}
    with pytest.raises(ValueError, match="expected a layer 7 as in BERT, GPT-2, Llama"):
        head_games_of_layer(model, inputs, 7, lambda out: out.logits[0, 1])
    model.config._attn_implementation = "sdpa"
    with pytest.raises(ValueError, match="expected eager attention"):
        head_games_of_layer(model, inputs, 1, lambda out: out.logits[0, 1])

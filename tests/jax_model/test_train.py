"""The trainer: runs that learn, stop, are killed, resumed, and spread over devices and hosts."""

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

import jax
import numpy as np
import pytest

from attn_closed_form import load_demo_model, load_model
from attn_closed_form.app.cli.train import option
from attn_closed_form.app.files.tables import Labelled
from jax_model.training import loop
from jax_model.training.config import P1, Config, automatic
from jax_model.training.devices import device_mesh, join_cluster
from jax_model.training.imdb import Reviews, load_imdb, review_numbers, split_by_film
from jax_model.training.loop import Optimizer, load_checkpoint, save_checkpoint
from jax_model.training.split import Split, split_stratified
from jax_model.training.text_model import start_arrays
from jax_model.training.train import Run, refit_checkpoint, train
from jax_model.training.train_tables import TableStart, table_start
from jax_model.training.word_tables import MASSLESS
from tests.patience import PATIENCE
from tests.profiles import mostly_slow

ROOT = Path(__file__).resolve().parents[2]
ARCHIVE = ROOT.parent / "shared" / "data" / "aclImdb_v1.tar.gz"
needs_imdb = pytest.mark.skipif(
    not ARCHIVE.is_file(), reason="aclImdb_v1.tar.gz is not in ../shared/data"
)

FLAGS = {
    "T_max": 13,
    "d_e": 7,
    "K": 2,
    "d_att": 3,
    "d_out": 5,
    "epochs": 3,
    "batch_size": 8,
    "warmup_steps": 2,
}
FLAGS |= {"positions": "sinusoidal", "unk_start": 0.0, "refit": "none"}
CONFIG = Config(**FLAGS, learning_rate=0.02, patience=9)
# Two runs whose sums are taken in another order: float32 rounding, amplified by a dozen steps of
# AdamW.
ANOTHER_ORDER = 1e-3


def tiny_reviews(n=60, seed=0):
    """Reviews whose sentiment one of four words decides, `n` of each label."""
    rng = np.random.default_rng(seed)
    opinions = (["dull", "awful"], ["fine", "lovely"])
    texts = []
    labels = []
    names = []
    for label, split in ((0, "neg"), (1, "pos")):
        for i in range(n):
            words = [
                *rng.choice(["a", "film", "with", "people", "and", "music"], rng.integers(3, 20))
            ]
            words.insert(int(rng.integers(3)), str(rng.choice(opinions[label])))
            texts.append(" ".join(words))
            labels.append(label)
            names.append(f"train/{split}/{i}_5.txt")
    return Reviews(texts, np.array(labels), names)


def write_reviews(root, reviews):
    for text, name in zip(reviews.texts, reviews.names, strict=True):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


# Runs


@pytest.mark.parametrize("positions", mostly_slow(["sinusoidal", "none"], 1))
def test_a_run_learns_and_stops_early(positions):
    lines = []
    changes = {"epochs": 40, "positions": positions}
    config = Config(**FLAGS | changes, learning_rate=0.05, patience=1, max_unk=0.3)
    split = split_by_film(tiny_reviews())
    other = tiny_reviews(seed=3)
    test = Labelled(other.texts, other.labels, split.training.classes)
    result = train(config, split, device="cpu", log=lines.append, test=test)
    best = result.metrics["best"]
    history = result.metrics["history"]
    assert best["validation_accuracy"] >= 0.9
    # The best epoch, patience, one too many.
    assert len(lines) == len(history) == best["epoch"] + 2 < 40
    assert best["validation_loss"] == min(record["validation_loss"] for record in history)
    assert result.model.predict(["a lovely film", "a dull film"]).tolist() == [
        "positive",
        "negative",
    ]
    # Reported numbers are those of the weights that are handed back, the averaged ones of the best
    # epoch.
    logits = result.model.predict_logits(split.held_out.texts)[:, 0]
    signed = np.where(split.held_out.labels == 1, 1, -1) * logits
    np.testing.assert_allclose(np.logaddexp(0, -signed).mean(), best["validation_loss"], rtol=1e-5)
    for part, data in (("held_out", split.held_out), ("test", test)):
        chances = result.model.predict_proba(data.texts)[np.arange(len(data.texts)), data.labels]
        np.testing.assert_allclose(
            result.model.card[part]["loss"], -np.log(chances).mean(), rtol=1e-5
        )
    scores = result.model.card["held_out"]
    assert scores["accuracy"] == pytest.approx(np.mean(signed > 0)) and scores["texts"] == 24
    # Without a mistake among 24 texts, the fitted probabilities promise about one in 26
    # (`fit_temperature`).
    assert scores["accuracy"] < 1 or scores["loss"] == pytest.approx(-np.log(25 / 26), rel=0.1)


TOPICS = {"sport": ["goal", "match"], "trade": ["tariff", "export"], "crops": ["wheat", "corn"]}


def three_topics(counts=(60, 40, 20), seed=0):
    rng = np.random.default_rng(seed)
    texts = []
    labels = []
    for label, (words, n) in enumerate(zip(TOPICS.values(), counts, strict=True)):
        for _ in range(n):
            filler = [
                *rng.choice(["the", "news", "of", "today", "and", "more"], rng.integers(3, 9))
            ]
            filler.insert(int(rng.integers(3)), str(rng.choice(words)))
            texts.append(" ".join(filler))
            labels.append(label)
    return Labelled(texts, np.array(labels), tuple(TOPICS))


@pytest.mark.slow
def test_three_classes_with_names_probabilities_and_a_test_part():
    split = split_stratified(three_topics(), 0.2)
    config = automatic(split.training.texts, K=2, d_e=16, d_att=8, d_out=8)
    result = train(config, split, "cpu", log=lambda line: None, test=three_topics(seed=1))
    model = result.model
    assert model.outputs == ("sport", "trade", "crops") and model.weights.C == 3
    assert model.predict(["more of tariff today", "the corn"]).tolist() == ["trade", "crops"]
    chances = model.predict_proba(["goal and more", "wheat"])
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert model.card["test"]["accuracy"] >= 0.95 and model.card["test"]["texts"] == 120
    assert set(model.card["held_out"]["classes"]) == set(TOPICS)
    other = train(config, split, "cpu", log=lambda line: None)  # a test part changes nothing
    np.testing.assert_array_equal(other.model.weights.W_e, model.weights.W_e)
    top = model.explain("the match of today", "shapley", output="sport")["shapley"].top(1)[0][0]
    assert top == "match"


@pytest.mark.parametrize(("epochs", "patience"), [(3, 2), (10, 2), (15, 3), (40, 8)])
def test_patience_is_a_fifth_of_the_epochs(epochs, patience):
    assert automatic(["a fine film"] * 100, epochs=epochs).patience == patience


def test_the_sizes_of_the_shipped_model():
    weights = load_demo_model().weights
    config = Config()
    assert (weights.d_e, weights.K, weights.d_att, weights.d_out) == (
        config.d_e,
        config.K,
        config.d_att,
        config.d_out,
    )


def test_settings_of_many_texts_come_from_a_sample():
    assert automatic(["a fine film"] * 2500).T_max == automatic(["a fine film"] * 100).T_max


def test_the_bar_of_a_run_ends_with_its_last_step(monkeypatch):
    bar = mock.MagicMock()
    monkeypatch.setattr(loop, "rich_progress", lambda: bar)
    loop.TrainingProgress(epochs=3, steps=5).step(epoch=2, step=5)
    assert bar.add_task.call_args.kwargs["total"] == bar.update.call_args.kwargs["completed"] == 15


def test_the_sizes_of_the_paper():
    config = Config(**P1)
    # P1, appendix F.
    assert (config.T_max, config.d_e, config.K, config.d_att, config.d_out) == (256, 128, 6, 64, 64)


class Killed(Exception):
    """What a log raises to end a run."""


@pytest.mark.slow
def test_once_more_on_all_texts_also_after_a_kill(tmp_path):
    split = split_by_film(tiny_reviews())
    for i in (0, 1):
        split.held_out.texts[i] += " heldout"
    config = replace(CONFIG, refit="all")
    lines = []
    other = tiny_reviews(seed=3)
    test = Labelled(other.texts, other.labels, split.training.classes)
    result = train(config, split, "cpu", log=lines.append, test=test)
    chances = result.model.predict_proba(test.texts)[np.arange(len(test.texts)), test.labels]
    np.testing.assert_allclose(
        result.model.card["test"]["loss"], -np.log(chances).mean(), rtol=1e-5
    )
    first = train(CONFIG, split, "cpu", log=lambda line: None)
    epochs = first.metrics["best"]["epoch"]
    assert "heldout" in result.model.vocabulary and "heldout" not in first.model.vocabulary
    assert result.model.card["refit"] == {"texts": 120, "epochs": epochs}
    assert [line.split(":")[0] for line in lines[-epochs:]] == ["on all texts"] * epochs
    # The scores are those of texts that were not trained on.
    for same in ("held_out", "training_texts"):
        assert result.model.card[same] == first.model.card[same]
    assert result.model.temperature == first.model.temperature

    def killed(line):
        if line.startswith("on all texts: epoch 1"):
            raise Killed

    path = tmp_path / "run.checkpoint"
    with pytest.raises(Killed):
        train(config, split, "cpu", path, log=killed, checkpoint_steps=2)
    with pytest.raises(ValueError, match="unfinished run"):
        train(config, split, "cpu", path)
    resumed = train(config, split, "cpu", path, resume=True, log=lambda line: None)
    for name, array in result.model.weights.arrays().items():
        assert np.array_equal(array, resumed.model.weights.arrays()[name]), name
    assert refit_checkpoint(path).exists()


@pytest.mark.slow
def test_balanced_classes_help_the_rare_one():
    """Both classes share their words, and two texts in three of those with "odd" are common
    ones.
    """
    rng = np.random.default_rng(0)
    texts = []
    labels = []
    for label, n, share in ((0, 240, 0.25), (1, 30, 1.0)):
        for _ in range(n):
            texts.append("odd text" if rng.random() < share else "plain text")
            labels.append(label)
    split = split_stratified(Labelled(texts, np.array(labels), ("common", "rare")), 0.2)
    chances = {}
    for weight in ("none", "balanced"):
        config = automatic(
            split.training.texts, K=1, d_e=8, d_att=4, d_out=4, epochs=10, class_weight=weight
        )
        model = train(config, split, "cpu", log=lambda line: None).model
        chances[weight] = model.predict(["odd text"])[0]
    assert chances == {"none": "common", "balanced": "rare"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"K": 0}, "^heads: "),
        ({"T_max": 1}, "^max_length: "),
        ({"max_unk": 1.5}, "^max_unk: "),
        ({"learning_rate": float("nan")}, "^learning_rate: "),
        ({"seed": -1}, "^seed: "),
        ({"class_weight": "fair"}, "^class_weight: "),
        ({"validation": 1.0}, "^validation: "),
    ],
)
def test_settings_that_make_no_sense(change, message):
    with pytest.raises(ValueError, match=message):
        Config(**change)


def test_devices_that_are_not_there():
    with pytest.raises(ValueError, match=r"^device: "):
        device_mesh("tpu")
    with pytest.raises(ValueError, match=r"^coordinator, processes and process_id: "):
        join_cluster("localhost:1", None, None)
    if {device.platform for device in jax.devices()} == {"cpu"}:
        with pytest.raises(ValueError, match=r"^device: "):
            device_mesh("gpu")


class Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_no_code_in_a_checkpoint_runs(tmp_path):
    notes = np.frombuffer(b"{}", dtype=np.uint8)
    path = tmp_path / "run.checkpoint"
    made = tmp_path / "made"
    for trap in (
        {"leaf_0": np.ones(3), "notes": np.array([Trap(made)])},
        {"leaf_0": np.array([Trap(made)]), "notes": notes},
    ):
        with path.open("wb") as stream:
            np.savez(stream, **trap)
        with pytest.raises(ValueError, match="not a readable checkpoint"):
            load_checkpoint(path, {"a": np.ones(3)})
        assert not made.exists()


def test_a_short_run_warms_up_for_half_of_its_steps():
    optimizer = Optimizer(learning_rate=1.0, warmup_steps=100)
    assert [float(optimizer.rates(step, 10)[0]) for step in (0, 4, 5)] == pytest.approx([0, 0.8, 1])


def test_checkpoints_that_do_not_fit(tmp_path):
    path = tmp_path / "run.checkpoint"
    split = split_by_film(tiny_reviews())
    save_checkpoint(path, {"a": np.ones(3)}, {})
    for other in (np.ones(2), np.ones(4), np.ones(3, dtype=np.float32)):
        with pytest.raises(ValueError, match="a checkpoint of another model"):
            load_checkpoint(path, {"a": other})
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="not a readable checkpoint"):
        load_checkpoint(path, {"a": np.ones(3)})
    with pytest.raises(ValueError, match="not a readable checkpoint"):
        train(CONFIG, split, "cpu", path, resume=True)
    path.unlink()
    unfinished = Config(**{**FLAGS, "epochs": 1}, learning_rate=0.02, patience=9)
    train(unfinished, split, "cpu", path, log=lambda line: None)
    with pytest.raises(
        ValueError, match=r"a checkpoint of an unfinished run; resume it \(--resume\), or delete it"
    ):
        train(unfinished, split, "cpu", path)
    with pytest.raises(ValueError, match="a checkpoint of a run with epochs=1, got 3"):
        train(CONFIG, split, "cpu", path, resume=True)
    with pytest.raises(ValueError, match="a checkpoint of a run on other data"):
        train(unfinished, split_by_film(tiny_reviews(seed=1)), "cpu", path, resume=True)
    labels = split.training.labels.copy()
    labels[[0, -1]] = labels[[-1, 0]]  # the same texts and classes, two labels exchanged
    relabelled = split._replace(training=split.training._replace(labels=labels))
    with pytest.raises(ValueError, match="a checkpoint of a run on other data"):
        train(unfinished, relabelled, "cpu", path, resume=True)
    renamed = Split(*(part._replace(classes=("no", "yes")) for part in split[:2]), split.groups)
    with pytest.raises(ValueError, match="a checkpoint of a run on other data"):
        train(unfinished, renamed, "cpu", path, resume=True)


# Runs in processes of their own. `KILL` names a moment; the process ends itself there as `kill -9`
# would.
SCRIPT = """
import os, signal, sys
import jax_model.training.loop
from attn_closed_form.app.cli.main import main

def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

def die_at(epoch, step):
    heard = jax_model.training.loop.TrainingProgress.step
    def listen(self, *now):
        heard(self, *now)
        if now == (epoch, step):
            die()
    jax_model.training.loop.TrainingProgress.step = listen

moments = {"": lambda: None,
           "in a step": lambda: die_at(1, 5),
           "in a checkpoint": lambda: setattr(jax_model.training.loop.os, "replace", die)}
*before, last = sys.argv[1].split("|")
for flags in before:
    assert main(flags.split()) == 0
moments[os.environ.get("KILL", "")]()
sys.exit(main(last.split()))
"""


def start(*runs, kill="", **environment):
    settings = {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "KILL": kill}
    environment = {**os.environ, **settings, **environment}
    command = [sys.executable, "-c", SCRIPT, "|".join(" ".join(flags) for flags in runs)]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def finish(process, status=0):
    try:
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == status, errors
    return errors


def flags_of(data, out):
    settings = {**FLAGS, "learning_rate": 0.02, "patience": 9}
    settings = [word for name, value in settings.items() for word in (option(name), str(value))]
    return [
        "train",
        str(data),
        "--out",
        str(out),
        "--metrics",
        str(out.with_suffix(".json")),
        *settings,
    ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with `whole.npz` from an undisturbed run and `killed.checkpoint` from one killed in
    its second epoch.
    """
    folder = tmp_path_factory.mktemp("runs")
    data = write_reviews(folder / "aclImdb", tiny_reviews())
    killed = [*flags_of(data, folder / "killed.npz"), "--checkpoint-steps", "2"]
    process = start(flags_of(data, folder / "whole.npz"), killed, kill="in a step")
    finish(process, status=-signal.SIGKILL)
    return folder


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_bits(runs):
    flags = [
        *flags_of(runs / "aclImdb", runs / "killed.npz"),
        "--checkpoint-steps",
        "2",
        "--resume",
    ]
    before = (runs / "killed.checkpoint").read_bytes()
    assert not (runs / "killed.npz").exists()
    finish(start(flags, kill="in a checkpoint"), status=-signal.SIGKILL)
    assert (runs / "killed.checkpoint").read_bytes() == before  # a half-written one does not count
    finish(start(flags))
    assert (runs / "killed.npz").read_bytes() == (runs / "whole.npz").read_bytes()
    assert not (runs / "killed.checkpoint").exists() and not (runs / "whole.checkpoint").exists()
    whole, killed = (
        json.loads((runs / f"{name}.json").read_text()) for name in ("whole", "killed")
    )
    assert [record["epoch"] for record in killed["history"]] == [1, 2, 3]
    for a, b in zip(whole["history"], killed["history"], strict=True):
        for name in ("epoch", "training_loss", "validation_loss", "validation_accuracy"):
            assert a[name] == b[name]


def same_run(runs, out):
    whole = load_model(runs / "whole.npz")
    other = load_model(out)
    assert whole.vocabulary == other.vocabulary
    expected = whole.predict_logits(tiny_reviews(seed=2).texts)
    found = other.predict_logits(tiny_reviews(seed=2).texts)
    np.testing.assert_allclose(found, expected, atol=ANOTHER_ORDER * np.abs(expected).max())
    histories = [
        json.loads(path.with_suffix(".json").read_text())["history"]
        for path in (runs / "whole.npz", out)
    ]
    for a, b in zip(*histories, strict=True):
        assert a["validation_loss"] == pytest.approx(b["validation_loss"], rel=ANOTHER_ORDER)


@pytest.mark.slow
def test_four_devices_give_what_one_gives(runs):
    out = runs / "four.npz"
    flags = flags_of(runs / "aclImdb", out)
    finish(start(flags, XLA_FLAGS="--xla_force_host_platform_device_count=4"))
    assert len(json.loads(out.with_suffix(".json").read_text())["devices"]) == 4
    same_run(runs, out)


@pytest.mark.slow
def test_two_hosts_give_what_one_gives(runs):
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    out = runs / "hosts.npz"
    cluster = ["--coordinator", f"localhost:{port}", "--processes", "2", "--process-id"]
    processes = [start([*flags_of(runs / "aclImdb", out), *cluster, str(i)]) for i in range(2)]
    for process in processes:
        finish(process)
    metrics = json.loads(out.with_suffix(".json").read_text())
    assert metrics["processes"] == 2 and len(metrics["devices"]) == 2
    same_run(runs, out)


@needs_imdb
@pytest.mark.slow  # trains on 4,000 reviews
def test_a_slice_of_imdb():
    """Slower: 5,000 real reviews are enough to pass 75 % on a thousand reviews of other films."""
    reviews = load_imdb(ARCHIVE, "train")
    rows = np.flatnonzero(review_numbers(reviews.names) % 12_500 < 2_500)
    part = Reviews(
        [reviews.texts[i] for i in rows], reviews.labels[rows], [reviews.names[i] for i in rows]
    )
    config = Config(
        d_e=32, D=4000, T_max=128, epochs=6, warmup_steps=40, learning_rate=3e-3, refit="none"
    )
    result = train(config, split_by_film(part), device="cpu", log=lambda line: None)
    assert result.metrics["training_texts"] == 4000 and result.metrics["held_out"]["texts"] == 1000
    assert result.metrics["best"]["validation_accuracy"] > 0.75


@pytest.mark.parametrize("seed", mostly_slow([0, 1], 1))
@pytest.mark.parametrize("positions", mostly_slow(["none", "sinusoidal"], 1))
def test_the_baseline_of_the_attention_model_is_the_class_prior(positions, seed):
    split = split_stratified(three_topics(), 0.2)
    changes = {"positions": positions, "seed": seed, "epochs": 2, "K": 2, "refit": "none"}
    small = {"d_e": 16, "d_att": 8, "d_out": 8}
    config = automatic(split.training.texts, **changes, **small)
    result = train(config, split, "cpu", log=lambda line: None)
    model = result.model
    prior = np.bincount(split.training.labels) / len(split.training.labels)
    np.testing.assert_allclose(model.predict_proba([""])[0], prior, atol=1e-5)
    assert model.temperature == 1 and model.card["prior"] == pytest.approx(prior.tolist())
    chances = model.predict_proba(split.held_out.texts)
    losses = -np.log(chances[np.arange(len(chances)), split.held_out.labels])
    assert losses.mean() == pytest.approx(model.card["held_out"]["loss"], rel=1e-4)
    np.testing.assert_allclose(result.losses, losses, rtol=1e-3, atol=1e-6)
    if positions == "none":
        # The start from tables knows the topics before the first step; two epochs are not enough to
        # learn them.
        assert model.card["held_out"]["accuracy"] > 0.9


def test_a_leftover_checkpoint_is_reported_before_the_tables_are_fitted(tmp_path, monkeypatch):
    leftover = tmp_path / "model.checkpoint"
    leftover.write_bytes(b"")
    monkeypatch.setattr("jax_model.training.train.table_start", None)
    split = split_stratified(three_topics(), 0.2)
    with pytest.raises(ValueError, match="checkpoint of an unfinished run"):
        train(automatic(split.training.texts), split, "cpu", checkpoint=leftover)


def test_words_without_mass_in_the_tables_get_exactly_zero_from_the_attention_model():
    split = split_stratified(three_topics(), 0.2)
    config = automatic(split.training.texts, positions="none", epochs=2, d_e=16, d_att=8, d_out=8)

    def without_the(fitted):
        s = fitted.tables.s.copy()
        s[1 + fitted.words.index("the")] = MASSLESS
        return fitted._replace(tables=fitted.tables._replace(s=s))

    start = TableStart(*map(without_the, table_start(split, config)))
    model = train(config, split, "cpu", log=lambda line: None, start=start).model
    topic = next(iter(TOPICS.values()))
    found = model.explain(" ".join(["the", *topic]), "shapley", scale="logit")["shapley"]
    scores = dict(found.top(20))
    assert scores["the"] == 0
    assert all(scores[word] != 0 for word in topic)
    assert model.card["words_with_mass"] < model.card["words"]
    assert 0 < model.card["tokens_without_mass"] < 0.5


def test_the_bias_starts_at_the_shares_of_the_classes():
    """Otherwise the attention of a model without positions learns them first, from [CLS], and may
    stay there.
    """
    split = split_stratified(three_topics((60, 30, 10)), 0.1)
    shares = np.bincount(split.training.labels) / len(split.training.labels)
    for config, expected in (
        (CONFIG, np.log(shares)),
        (replace(CONFIG, class_weight="balanced"), np.log([1 / 3] * 3)),
    ):
        np.testing.assert_allclose(
            Run.of(config, split, device_mesh("cpu")).start["b_l"], expected, rtol=1e-6
        )
    two = split_by_film(tiny_reviews())
    assert Run.of(CONFIG, two, device_mesh("cpu")).start["b_l"].tolist() == [0.0]


def test_the_padding_starts_where_it_is_told_to():
    config = Config(**FLAGS | {"unk_start": -4.0})
    fixed, trained = start_arrays(config, D=17, C=3, cls=0, unk=1)
    keys = np.einsum("kae,ka->ke", trained["W_k"], trained["W_q"] @ trained["W_e"][0]) / 3**0.5
    np.testing.assert_allclose(keys @ trained["W_e"][1], [-4, -4], rtol=1e-5)
    other = start_arrays(Config(**FLAGS), D=17, C=3, cls=0, unk=1)[1]
    np.testing.assert_array_equal(
        np.delete(other["W_e"], 1, axis=0), np.delete(trained["W_e"], 1, axis=0)
    )
    assert fixed["W_p"].shape == (13, 7)

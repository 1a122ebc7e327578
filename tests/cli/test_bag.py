"""`attn-closed-form bag`: files, a folder that resumes, and one line for what goes wrong."""

import csv
import json

import numpy as np
import pytest

from attn_closed_form import BagClassifier, load_bag
from attn_closed_form.cli import bag as command
from attn_closed_form.cli.main import main
from attn_closed_form.run.bags import BagTask, collect, plan_bags, run_bags
from attn_closed_form.run.mappers import Processes, here
from attn_closed_form.show.exports import KINDS
from tests.bags import slide


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of two classes and three bags, one of them damaged."""
    place = tmp_path_factory.mktemp("bags")
    rng = np.random.default_rng(0)
    shapes = {"attention.0": (3, 5), "attention.2": (1, 3), "classifier": (2, 5)}
    np.savez(place / "model.npz", **{f"{name}.weight": rng.normal(size=shape) for name, shape in shapes.items()})
    (place / "slides").mkdir()
    for i in range(2):
        bag = slide(4 + i, 3, seed=i)
        np.savez(place / "slides" / f"slide{i}.npz", features=bag.features, coords=bag.coords)
    (place / "slides" / "worse.npz").write_bytes(b"no zip")
    (place / "slides" / "notes.txt").write_text("not a bag", encoding="utf-8")
    return place


def scores(folder, output="tumour", **settings):
    model = BagClassifier.from_state_dict(folder / "model.npz", "xmil", outputs=["normal", "tumour"])
    return model.explain(load_bag(folder / "slides" / "slide0.npz"), "shapley", output=output, **settings)


def arguments(folder, *more, bag="slides/slide0.npz"):
    return [
        "bag",
        str(folder / "model.npz"),
        str(folder / bag),
        "--layout",
        "xmil",
        "--classes",
        "normal,tumour",
        *more,
    ]


def test_every_kind_of_file_is_an_option_of_one_bag_and_of_a_folder():
    assert tuple(KINDS) == command.FILES


def test_one_bag_to_every_file(folder, tmp_path, capsys):
    for extra in ("matplotlib", "pyarrow", "h5py"):
        pytest.importorskip(extra, reason=f"{extra} is not installed")
    paths = {kind: tmp_path / f"x{KINDS[kind].suffix}" for kind in KINDS}
    options = [text for kind, path in paths.items() for text in (f"--{kind}", str(path))]
    assert main(arguments(folder, "--output", "tumour", *options, "--top", "2")) == 0
    assert all(path.stat().st_size > 100 for path in paths.values())
    with paths["csv"].open(encoding="utf-8", newline="") as stream:
        found = [float(row["shapley"]) for row in csv.DictReader(stream)]
    expected = scores(folder)
    assert found == expected["shapley"].scores.tolist()
    shown = capsys.readouterr().out
    assert f"tumour {expected.prediction:+.4f}, probability" in shown
    assert f"{expected['shapley'].scores.max():+.4g}" in shown and "of the attention is on instances" in shown


def test_json_is_one_object_with_both_ends(folder, capsys):
    assert main(arguments(folder, "--output", "margin:tumour,normal", "--json", "--top", "3")) == 0
    found = json.loads(capsys.readouterr().out)
    expected = scores(folder, "margin:tumour,normal")["shapley"].scores
    assert found["output"] == "tumour - normal" and found["instances"] == 12
    assert [value for _, value in found["top"]] == sorted(expected[expected > 0], reverse=True)[:3]
    assert [value for _, value in found["bottom"]] == sorted(expected[expected < 0])[:3]


def test_regions_are_players(folder, tmp_path, capsys):
    path = tmp_path / "regions.csv"
    assert main(arguments(folder, "--region", "512", "--csv", str(path))) == 0
    with path.open(encoding="utf-8", newline="") as stream:
        assert [row["tiles"] for row in csv.DictReader(stream)] == ["4", "4", "2", "2"]


def test_one_map_per_class(folder, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    one, each = tmp_path / "one.png", tmp_path / "each.png"
    assert main(arguments(folder, "--map", str(one))) == 0
    assert main(arguments(folder, "--each-output", "--map", str(each))) == 0
    from matplotlib.image import imread

    assert imread(each).shape[1] > 1.4 * imread(one).shape[1]  # three panels beside two


@pytest.mark.parametrize(
    ("more", "status", "message"),
    [
        (["--output", "tumor"], 1, "output: expected one of normal, tumour"),
        (["--set", "activation"], 2, "--set: expected NAME=VALUE, got 'activation'"),
        (["--set", "heads=3"], 1, "heads: expected"),
        (["--tol", "0"], 2, "--tol: expected a number in"),
        (["--out", "x"], 2, "--out: expected a folder of bags"),
        (["--thumbnail", "x.png"], 2, "--thumbnail: expected --map FILE beside it"),
        (["--csv", "MODEL"], 2, "--csv: expected a file of its own"),
        (["--csv", "same.out", "--geojson", "same.out"], 2, "--geojson: expected a file of its own"),
        (["--csv", "no/such/folder.csv"], 1, "no/such/folder.csv: expected a file name in an existing folder"),
    ],
)
def test_wrong_usage_is_one_line(folder, capsys, more, status, message):
    more = [str(folder / "model.npz") if text == "MODEL" else text for text in more]
    try:
        found = main(arguments(folder, *more))
    except SystemExit as stop:
        found = stop.code
    shown = capsys.readouterr().err
    assert found == status and message in shown and "Traceback" not in shown


def test_a_folder_goes_on_where_it_stopped(folder, tmp_path, capsys):
    out = tmp_path / "results"
    command = arguments(folder, "--out", str(out), "--files", "csv,geojson", "--workers", "1", bag="slides")
    assert main(command) == 0
    said = capsys.readouterr()
    assert "worse: " in said.err and "3 bags, 3 now, 1 with an error" in said.out
    with (out / "bags.csv").open(encoding="utf-8", newline="") as stream:
        rows = {row["bag"]: row for row in csv.DictReader(stream)}
    assert list(rows) == ["slide0", "slide1", "worse"]
    assert float(rows["slide0"]["prediction"]) == pytest.approx(max(scores(folder).evidence.logits))
    assert rows["worse"]["error"] and not rows["slide0"]["error"]
    assert sorted(path.name for path in out.glob("slide0*")) == ["slide0.csv", "slide0.geojson"]
    (out / "rows" / "slide1.json").unlink()
    kept = (out / "rows" / "slide0.json").stat().st_mtime_ns
    assert main(command) == 0
    assert "1 of 3 bags are there already" in capsys.readouterr().err
    assert (out / "rows" / "slide0.json").stat().st_mtime_ns == kept and (out / "rows" / "slide1.json").exists()
    assert main([*command, "--output", "normal"]) == 1
    assert "holds results of another run, with another settings" in capsys.readouterr().err


def test_any_mapper_gives_the_same_rows(folder, tmp_path):
    task = BagTask(str(folder / "model.npz"), "xmil", ("normal", "tumour"), files=("csv",))
    tables = []
    for name, mapper in (("here", here), ("there", Processes(2))):
        missing, done = plan_bags(folder / "slides", tmp_path / name, task)
        assert len(missing) == 3 and not done
        assert len(list(run_bags(task, missing, tmp_path / name, mapper))) == 3
        tables.append(collect(tmp_path / name).read_text(encoding="utf-8"))
    assert tables[0] == tables[1]


def test_a_folder_says_what_is_wrong_with_it(folder, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    base = ["bag", str(folder / "model.npz")]
    assert main([*base, str(tmp_path / "empty"), "--out", str(tmp_path / "o")]) == 1
    assert "expected bags in files ending in" in capsys.readouterr().err
    (tmp_path / "two").mkdir()
    for suffix in (".npy", ".npz"):
        (tmp_path / "two" / f"a{suffix}").write_bytes(b"")
    assert main([*base, str(tmp_path / "two"), "--out", str(tmp_path / "o")]) == 1
    assert "expected one file per bag, got a.npy and a.npz" in capsys.readouterr().err
    for more, message in (
        ([], "--out: expected the folder for the results"),
        (["--out", "o", "--csv", "x.csv"], "--csv: is for one bag"),
        (["--out", "o", "--workers", "0"], "--workers: expected at least 1, got 0"),
    ):
        with pytest.raises(SystemExit) as stop:
            main([*base, str(folder / "slides"), *more])
        assert stop.value.code == 2 and message in capsys.readouterr().err
    assert main([*base, str(folder / "slides"), "--out", str(tmp_path / "o"), "--files", "csv,gif"]) == 1
    assert "files: expected kinds among map, csv" in capsys.readouterr().err

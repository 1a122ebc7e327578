"""`attn-closed-form bag`: files, a folder that resumes, and one line for what goes wrong."""

import csv
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from attn_closed_form import BagClassifier, load_bag
from attn_closed_form.app.cli.main import main
from attn_closed_form.app.show.exports import KINDS
from tests.bags import slide
from tests.pages import ROOT


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of two classes and three bags, one of them damaged."""
    place = tmp_path_factory.mktemp("bags")
    rng = np.random.default_rng(0)
    shapes = {"attention.0": (3, 5), "attention.2": (1, 3), "classifier": (2, 5)}
    np.savez(
        place / "model.npz",
        **{f"{name}.weight": rng.normal(size=shape) for name, shape in shapes.items()},
    )
    (place / "slides").mkdir()
    for i in range(2):
        bag = slide(4 + i, 3, seed=i)
        np.savez(place / "slides" / f"slide{i}.npz", features=bag.features, coords=bag.coords)
    (place / "slides" / "worse.npz").write_bytes(b"no zip")
    (place / "slides" / "notes.txt").write_text("not a bag", encoding="utf-8")
    return place


def scores(folder, output="tumor", **settings):
    model = BagClassifier.from_state_dict(folder / "model.npz", "xmil", outputs=["normal", "tumor"])
    return model.explain(
        load_bag(folder / "slides" / "slide0.npz"), "shapley", output=output, **settings
    )


def arguments(folder, *more, bag="slides/slide0.npz"):
    return [
        "bag",
        str(folder / "model.npz"),
        str(folder / bag),
        "--layout",
        "xmil",
        "--classes",
        "normal,tumor",
        *more,
    ]


def test_one_bag_to_every_file(folder, tmp_path, capsys):
    for extra in ("matplotlib", "pyarrow", "h5py"):
        pytest.importorskip(extra, reason=f"{extra} is not installed")
    paths = {kind: tmp_path / f"x{KINDS[kind].suffix}" for kind in KINDS}
    options = [text for kind, path in paths.items() for text in (f"--{kind}", str(path))]
    assert main(arguments(folder, "--output", "tumor", *options, "--top", "2")) == 0
    assert all(path.stat().st_size > 100 for path in paths.values())
    with paths["csv"].open(encoding="utf-8-sig", newline="") as stream:
        found = [float(row["shapley"]) for row in csv.DictReader(stream)]
    expected = scores(folder)
    assert found == expected["shapley"].scores.tolist()
    shown = capsys.readouterr().out
    assert f"The probability of tumor is {100 * expected.prediction:.1f}%: " in shown
    assert "Explained: the probability of tumor" in shown
    assert (
        f"{100 * expected['shapley'].scores.max():+.4g}" in shown
        and "of the attention is on instances" in shown
    )


def test_json_is_one_object_with_both_ends(folder, capsys):
    assert main(arguments(folder, "--output", "margin:tumor,normal", "--json", "--top", "3")) == 0
    found = json.loads(capsys.readouterr().out)
    expected = scores(folder, "margin:tumor,normal")["shapley"].scores
    assert (
        found["output"] == "tumor against normal"
        and found["scale"] == "probability"
        and found["instances"] == 12
    )
    assert [value for _, value in found["top"]] == sorted(expected[expected > 0], reverse=True)[:3]
    assert [value for _, value in found["bottom"]] == sorted(expected[expected < 0])[:3]


def test_regions_are_players(folder, tmp_path, capsys):
    path = tmp_path / "regions.csv"
    assert main(arguments(folder, "--region", "512", "--csv", str(path))) == 0
    with path.open(encoding="utf-8", newline="") as stream:
        assert [row["tiles"] for row in csv.DictReader(stream)] == ["4", "4", "2", "2"]


def test_one_map_per_class(folder, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    one = tmp_path / "one.png"
    each = tmp_path / "each.png"
    assert main(arguments(folder, "--map", str(one))) == 0
    assert main(arguments(folder, "--each-output", "--map", str(each))) == 0
    from matplotlib.image import imread

    assert imread(each).shape[1] > 1.4 * imread(one).shape[1]  # three panels beside two


def test_each_output_reaches_every_file(folder, tmp_path, capsys):
    csv_path = tmp_path / "scores.csv"
    page = tmp_path / "slide.html"
    options = ["--each-output", "--csv", str(csv_path), "--report", str(page), "--json"]
    assert main(arguments(folder, *options)) == 0
    printed = json.loads(capsys.readouterr().out)
    names = [entry["output"] for entry in printed["outputs"]]
    assert sorted(names) == ["normal", "tumor"]
    text = csv_path.read_text(encoding="utf-8-sig")
    assert all(f",{name}," in text for name in names)
    html = page.read_text(encoding="utf-8")
    assert all(f"evidence for {name} (" in html for name in names)


@pytest.mark.parametrize(
    ("more", "status", "message"),
    [
        (["--output", "tumr"], 1, "output: expected one of normal, tumor"),
        (["--set", "activation"], 2, "--set: expected NAME=VALUE, got 'activation'"),
        (["--set", "heads=3"], 1, "heads: expected"),
        (["--tol", "0"], 2, "--tol: expected a number in"),
        (["--out", "x"], 2, "--out: expected a folder of bags"),
        (["--thumbnail", "x.png"], 2, "--thumbnail: expected --map FILE or --report FILE as well"),
        (["--map", "MODEL"], 2, "--map: expected a separate file"),
        (["--csv", "same.csv", "--geojson", "same.csv"], 2, "--geojson: expected a separate file"),
        (
            ["--csv", "no/such/folder.csv"],
            1,
            "no/such/folder.csv: expected a file name in an existing folder",
        ),
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


def test_no_output_replaces_the_roles_the_logits_or_the_model(folder, tmp_path, capsys):
    roles = tmp_path / "roles.json"
    logits = tmp_path / "logits.csv"
    roles.write_text("{}", encoding="utf-8")
    logits.write_text("bag,normal,tumor\n", encoding="utf-8")
    model = folder / "model.npz"
    before = model.read_bytes()
    for command in (
        arguments(folder, "--rename", str(roles), "--map", str(roles)),
        arguments(folder, "--check", str(logits), "--map", str(logits)),
        ["roles", str(model), "--out", str(model)],
    ):
        with pytest.raises(SystemExit) as stop:
            main(command)
        assert stop.value.code == 2 and "expected a separate file" in capsys.readouterr().err
    assert (roles.read_text(), logits.read_text()) == (
        "{}",
        "bag,normal,tumor\n",
    ) and model.read_bytes() == before


def test_roles_that_are_nested_too_deeply_are_one_line(folder, tmp_path, capsys):
    (tmp_path / "roles.json").write_text("[" * 100_000, encoding="utf-8")
    assert main(arguments(folder, "--rename", str(tmp_path / "roles.json"))) == 1
    error = capsys.readouterr().err
    assert (
        "roles.json: expected a JSON object of roles and layers" in error and error.count("\n") == 1
    )


def test_a_map_never_replaces_the_thumbnail(folder, tmp_path, capsys):
    thumbnail = tmp_path / "thumb.png"
    thumbnail.write_bytes(b"a picture of the slide")
    (tmp_path / "link.png").symlink_to(thumbnail)
    for target in (thumbnail, tmp_path / "link.png"):
        with pytest.raises(SystemExit) as stop:
            main(arguments(folder, "--thumbnail", str(thumbnail), "--map", str(target)))
        assert stop.value.code == 2 and "--map: expected a separate file" in capsys.readouterr().err
    assert thumbnail.read_bytes() == b"a picture of the slide"


def test_one_bag_needs_neither_the_runner_nor_the_web(folder, tmp_path):
    script = (
        "import sys; from attn_closed_form.app.cli.main import main; status = main(sys.argv[1:])\n"
        "rooms = ('attn_closed_form.app.run', 'attn_closed_form.app.web', 'distributed', "
        "'fastapi')\n"
        "print(status, [name for name in sys.modules if name.startswith(rooms)], file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, *arguments(folder, "--csv", str(tmp_path / "x.csv"))]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stderr.splitlines()[-1] == "0 []"


def bag_rows(out):
    with (out / "bags.csv").open(encoding="utf-8", newline="") as stream:
        return {row["bag"]: row for row in csv.DictReader(stream)}


def test_a_folder_resumes(folder, tmp_path, capsys):
    pytest.importorskip("pyarrow", reason="needs the corpus extra")
    slides = shutil.copytree(folder / "slides", tmp_path / "slides")
    out = tmp_path / "results"
    command = arguments(folder, "--out", str(out), "--files", "csv,geojson", "--workers", "1")
    command[2] = str(slides)
    assert main(command) == 0
    printed = capsys.readouterr()
    assert (
        "worse: " in printed.err
        and "3 bags, 3 now" in printed.out
        and "1 with an error" in printed.out
    )
    rows = bag_rows(out)
    assert list(rows) == ["slide0", "slide1", "worse"]
    assert float(rows["slide0"]["prediction"]) == pytest.approx(
        max(scores(folder).probabilities.values())
    )
    assert rows["slide0"]["scale"] == "probability"
    assert rows["slide0"]["instances"] == "12" and float(rows["slide0"]["error_bound"]) < 1e-9
    assert rows["worse"]["error"] and not rows["slide0"]["error"]
    assert sorted(path.name for path in out.glob("slide0*")) == ["slide0.csv", "slide0.geojson"]
    (out / "part-000001.parquet").unlink()
    first = (out / "part-000000.parquet").stat().st_mtime_ns
    # The damaged bag is tried again, and is explained once it is repaired; a bag that is added is
    # explained as well.
    shutil.copy(slides / "slide0.npz", slides / "worse.npz")
    shutil.copy(slides / "slide1.npz", slides / "added.npz")
    assert main(command) == 0
    printed = capsys.readouterr()
    assert "1 of 4 bags are already done" in printed.err and "4 bags, 3 now" in printed.out
    assert (out / "part-000000.parquet").stat().st_mtime_ns == first
    again = bag_rows(out)
    assert list(again) == ["added", "slide0", "slide1", "worse"] and not any(
        row["error"] for row in again.values()
    )
    assert (
        again["worse"]["prediction"] == rows["slide0"]["prediction"]
        and again["slide1"] == rows["slide1"]
    )
    # What is done is not mixed with anything else.
    assert main([*command, "--output", "normal"]) == 1
    assert "--output was the default and is normal" in capsys.readouterr().err
    shutil.copy(slides / "slide1.npz", slides / "slide0.npz")
    assert main(command) == 1
    assert "slide0.npz has changed" in capsys.readouterr().err
    (slides / "slide0.npz").unlink()
    assert main(command) == 1
    assert "the input files are different" in capsys.readouterr().err


@pytest.mark.slow
def test_one_worker_and_two_give_the_same_table(folder, tmp_path):
    pytest.importorskip("distributed", reason="needs the corpus extra")
    tables = []
    for workers in "12":
        out = tmp_path / workers
        assert (
            main(
                arguments(
                    folder, "--out", str(out), "--files", "csv", "--workers", workers, bag="slides"
                )
            )
            == 0
        )
        tables.append(
            [(out / name).read_bytes() for name in ("bags.csv", "slide0.csv", "slide1.csv")]
        )
    assert tables[0] == tables[1]


def test_status_1_if_no_bag_could_be_explained(folder, tmp_path, capsys):
    pytest.importorskip("pyarrow", reason="needs the corpus extra")
    (tmp_path / "slides").mkdir()
    for name in ("a", "b"):
        (tmp_path / "slides" / f"{name}.npz").write_bytes(b"no zip")
    command = arguments(folder, "--out", str(tmp_path / "out"), "--workers", "1")
    command[2] = str(tmp_path / "slides")
    for _ in range(2):  # the second run tries both again
        assert main(command) == 1
        assert "2 bags, 2 now" in capsys.readouterr().out
    assert all(row["error"] for row in bag_rows(tmp_path / "out").values())


def test_a_folder_says_what_is_wrong_with_it(folder, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    base = ["bag", str(folder / "model.npz")]
    assert main([*base, str(tmp_path / "empty"), "--out", str(tmp_path / "o")]) == 1
    assert "bags (.h5, .hdf5" in capsys.readouterr().err
    (tmp_path / "two").mkdir()
    for suffix in (".npy", ".npz"):
        (tmp_path / "two" / f"a{suffix}").write_bytes(b"")
    assert main([*base, str(tmp_path / "two"), "--out", str(tmp_path / "o")]) == 1
    assert "expected one file per bag, got a.npy and a.npz" in capsys.readouterr().err
    for more, message in (
        ([], "--out: expected the folder for the results"),
        (["--out", "o", "--csv", "x.csv"], "--csv: only for a single bag"),
        (["--out", "o", "--workers", "0"], "--workers: expected a number, at least 1, got '0'"),
    ):
        with pytest.raises(SystemExit) as stop:
            main([*base, str(folder / "slides"), *more])
        assert stop.value.code == 2 and message in capsys.readouterr().err
    assert (
        main([*base, str(folder / "slides"), "--out", str(tmp_path / "o"), "--files", "csv,gif"])
        == 1
    )
    assert "files: expected" in capsys.readouterr().err


def test_assumptions_are_printed_until_a_check_has_passed(folder, tmp_path, capsys):
    """A network with relu where the layout assumes tanh: mended by the check, refused where nothing
    explains it.
    """
    files = [folder / "slides" / f"slide{i}.npz" for i in range(2)]
    model = BagClassifier.from_state_dict(folder / "model.npz", "xmil", activation="relu")
    logits = model.predict_logits([load_bag(file) for file in files])
    table = tmp_path / "logits.csv"

    def write(numbers):
        lines = [
            f"{file},{','.join(map(repr, row))}"
            for file, row in zip(files, numbers.tolist(), strict=True)
        ]
        table.write_text("\n".join(["bag,normal,tumor", *lines]), encoding="utf-8")

    assert main(arguments(folder, "--json")) == 0
    assumed = json.loads(capsys.readouterr().out)["assumed"]
    assert assumed == "assumed: tanh attention, temperature 1 (not checked)"
    csv_file = tmp_path / "x.csv"
    report = tmp_path / "x.html"
    assert main(arguments(folder, "--csv", str(csv_file), "--report", str(report))) == 0
    assert assumed in capsys.readouterr().out
    assert assumed in csv_file.read_text(encoding="utf-8") and assumed in report.read_text(
        encoding="utf-8"
    )
    write(logits)
    assert (
        main(
            arguments(
                folder, "--json", "--output", "tumor", "--scale", "logit", "--check", str(table)
            )
        )
        == 0
    )
    captured = capsys.readouterr()
    assert json.loads(captured.out)["assumed"] is None and "activation='relu'" in captured.err
    assert json.loads(captured.out)["prediction"] == pytest.approx(logits[0, 1])
    write(logits * [[1.0], [3.0]])
    assert main(arguments(folder, "--check", str(table))) == 1
    assert "the logits differ by" in capsys.readouterr().err


def test_a_network_with_names_of_its_own(folder, tmp_path, capsys):
    """From a file with five names of its own to scores: one proposal, one short JSON, one
    command.
    """
    torch = pytest.importorskip("torch", reason="the network is built in torch")
    nn = torch.nn
    bag = load_bag(folder / "slides" / "slide0.npz")
    torch.manual_seed(0)

    class Mine(nn.Module):
        def __init__(self):
            super().__init__()
            self.squeeze = nn.Linear(5, 7)
            self.look = nn.Linear(7, 3)
            self.valve = nn.Linear(7, 3)
            self.rank = nn.Linear(3, 1)
            self.verdict = nn.Linear(7, 2)

        def forward(self, x):
            h = torch.relu(self.squeeze(x))
            s = self.rank(torch.tanh(self.look(h)) * torch.sigmoid(self.valve(h)))
            return self.verdict((torch.softmax(s, dim=0) * h).sum(dim=0))

    network = Mine().double()
    logits = network(torch.from_numpy(np.array(bag.features, dtype=np.float64))).detach().numpy()
    torch.save(network.state_dict(), tmp_path / "mine.pt")
    slide_file = str(folder / "slides" / "slide0.npz")
    roles = str(tmp_path / "roles.json")
    given = f"--logits={logits[0]!r},{logits[1]!r}".replace("np.float64(", "").replace(")", "")
    assert main(["roles", str(tmp_path / "mine.pt"), slide_file, given, "--out", roles]) == 0
    for wrong in ("--logits=0.5", f"{given},0.5"):
        assert main(["roles", str(tmp_path / "mine.pt"), slide_file, wrong]) == 1
        assert "whose sizes match the layers" in capsys.readouterr().err
    named = json.loads((tmp_path / "roles.json").read_text(encoding="utf-8"))
    assert {role: named[role] for role in ("V", "U", "w")} == {
        "V": "look",
        "U": "valve",
        "w": "rank",
    }
    capsys.readouterr()
    assert (
        main(
            [
                "bag",
                str(tmp_path / "mine.pt"),
                slide_file,
                "--rename",
                roles,
                "--output",
                "1",
                "--json",
                "--scale",
                "logit",
            ]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["prediction"] == pytest.approx(logits[1], abs=1e-12)
    module = BagClassifier.from_state_dict(network, roles=named)
    assert np.allclose(module.predict_logits([bag])[0], logits, atol=1e-12)
    with pytest.raises(ValueError, match=r"^roles: "):
        BagClassifier.from_state_dict(network, roles={"w": "other", "classifier": "verdict"})


def test_layers_that_play_no_part_are_left_out_by_name(folder, tmp_path, capsys):
    """A second classifier: no roles use every layer, the error names the way out, and a JSON takes
    it.
    """
    with np.load(folder / "model.npz") as file:
        arrays = {name.replace("attention", "look"): array for name, array in file.items()}
    np.savez(tmp_path / "two.npz", **arrays, **{"teacher.weight": np.ones((4, 9))})
    assert main(["roles", str(tmp_path / "two.npz")]) == 1
    assert 'under "leave"' in capsys.readouterr().err
    roles = {"V": "look.0", "w": "look.2", "classifier": "classifier", "leave": ["teacher."]}
    (tmp_path / "roles.json").write_text(json.dumps(roles), encoding="utf-8")
    slide_file = str(folder / "slides" / "slide0.npz")
    command = [
        "bag",
        str(tmp_path / "two.npz"),
        slide_file,
        "--rename",
        str(tmp_path / "roles.json"),
    ]
    assert main([*command, "--output", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["prediction"] == pytest.approx(
        scores(folder).prediction
    )


def test_no_proposals_are_wrong_usage(folder, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["roles", str(folder / "model.npz"), "--top", "0"])
    assert stop.value.code == 2 and "--top" in capsys.readouterr().err

"""Files of a bag's scores, read back by other programs' readers: csv, pyarrow, json, h5py."""

import csv
import dataclasses
import json
from itertools import pairwise

import numpy as np
import pytest

from attn_closed_form import Bag
from attn_closed_form.app.explanations.explain import explain_outputs
from attn_closed_form.app.show.exports import (
    columns,
    row,
    write_csv,
    write_geojson,
    write_h5,
    write_parquet,
)
from attn_closed_form.app.show.figures import AGAINST, FOR
from attn_closed_form.app.show.maps import attentions, disagreement, strongest
from tests.bags import bag_model, class_heads_model, slide


@pytest.fixture(scope="module")
def found():
    return bag_model().explain(
        slide(name="s1", patch_level=0), ["shapley", "banzhaf", "alpha-mean"], output="tumor"
    )


def test_a_csv_has_one_row_per_instance_with_all_digits(found, tmp_path):
    write_csv(found, tmp_path / "scores.csv")
    with (tmp_path / "scores.csv").open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == [
        "player",
        "x",
        "y",
        "attention",
        "shapley",
        "banzhaf",
        "output",
        "scale",
        "assumed",
    ]
    assert {row["assumed"] for row in rows} == {found.evidence.model.doubts}
    assert [float(row["shapley"]) for row in rows] == found["shapley"].scores.tolist()
    assert [float(row["attention"]) for row in rows] == found["alpha-mean"].scores.tolist()
    assert [(row["x"], row["y"]) for row in rows[3:5]] == [("1768", "2000"), ("1000", "2256")]
    assert [path.name for path in tmp_path.iterdir()] == ["scores.csv"]


def test_names_of_strangers_are_no_formulas(tmp_path):
    names = ("=1+1", "=1", "-5", "@x", "@1", "a\nb", "ok", " +x", "＝x")
    bag = Bag(np.random.default_rng(0).normal(size=(9, 5)), ids=names)
    write_csv(bag_model().explain(bag, ["shapley"]), tmp_path / "scores.tsv")
    with (tmp_path / "scores.tsv").open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.reader(stream, delimiter="\t"))
    assert [row[0] for row in rows[1:]] == [
        "'=1+1",
        "'=1",
        "-5",
        "'@x",
        "'@1",
        "a b",
        "ok",
        "' +x",
        "'＝x",
    ]


def test_regions_are_rows_with_their_number_of_tiles():
    found = bag_model().explain(slide().in_regions(768), ["shapley"], players="regions")
    table = columns(found)
    assert table["tiles"].tolist() == [9, 3] and table["x"].tolist() == [1000, 1768]
    assert table["attention"].sum() == pytest.approx(1)


def test_parquet_says_what_was_explained(found, tmp_path):
    parquet = pytest.importorskip(
        "pyarrow.parquet", reason="pyarrow is not installed (extra: corpus)"
    )
    write_parquet(found, tmp_path / "scores.parquet")
    table = parquet.read_table(tmp_path / "scores.parquet")
    np.testing.assert_array_equal(table["shapley"], found["shapley"].scores)
    facts = json.loads(table.schema.metadata[b"explanation"])
    assert facts["output"] == "tumor" and facts["prediction"] == found.prediction


def test_geojson_has_a_closed_polygon_per_tile(found, tmp_path):
    write_geojson(found, tmp_path / "slide.geojson")
    collection = json.loads((tmp_path / "slide.geojson").read_text(encoding="utf-8"))
    assert collection["type"] == "FeatureCollection" and len(collection["features"]) == 12
    for i, feature in enumerate(collection["features"]):
        (ring,) = feature["geometry"]["coordinates"]
        x, y = found.evidence.units.coords[i]
        assert ring == [[x, y], [x + 256, y], [x + 256, y + 256], [x, y + 256], [x, y]]
        properties = feature["properties"]
        score = found["shapley"].scores[i]
        assert properties["objectType"] == "detection"
        if score >= 0:
            side = {"name": "for tumor", "color": list(FOR)}
        else:
            side = {"name": "against tumor", "color": list(AGAINST)}
        assert properties["classification"] == side
        red, _, blue = properties["color"]
        assert (red > blue) == (score > 0), "orange is for, blue is against"
        measured = properties["measurements"]
        assert measured["shapley probability of tumor"] == score
        assert measured["banzhaf probability of tumor"] == found["banzhaf"].scores[i]
        assert set(measured) == {
            "shapley probability of tumor",
            "banzhaf probability of tumor",
            "attention",
        }


def test_geojson_turns_micrometers_into_pixels(tmp_path):
    bag = slide(side=100)
    stamp = Bag(bag.features, bag.coords, attrs={"tile_size_um": 100.0, "unit": "um"})
    found = bag_model().explain(stamp, ["shapley"])
    with pytest.raises(ValueError, match=r"^microns_per_pixel: "):
        write_geojson(found, tmp_path / "slide.geojson")
    write_geojson(found, tmp_path / "slide.geojson", microns_per_pixel=0.5)
    first = json.loads((tmp_path / "slide.geojson").read_text(encoding="utf-8"))["features"][0]
    assert first["geometry"]["coordinates"][0][2] == [2200, 4200]
    with pytest.raises(ValueError, match="this bag has pixels"):
        write_geojson(
            bag_model().explain(bag, ["shapley"]), tmp_path / "x.geojson", microns_per_pixel=0.5
        )


def test_geojson_of_hostile_class_names_is_json(tmp_path):
    found = bag_model(outputs=("normal", 'tu"mour}\n')).explain(slide(), ["shapley"], output=1)
    write_geojson(found, tmp_path / "slide.geojson")
    first = json.loads((tmp_path / "slide.geojson").read_text(encoding="utf-8"))["features"][0]
    assert first["properties"]["classification"]["name"].endswith('tu"mour} ')


def test_h5_has_the_names_of_clam(found, tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed (extra: bags)")
    write_h5(found, tmp_path / "blockmap.h5", "banzhaf")
    with h5py.File(tmp_path / "blockmap.h5") as file:
        scores = file["attention_scores"][:]
        coords = file["coords"][:]
        assert (
            scores.shape == (12, 1)
            and coords.dtype.kind == "i"
            and file.attrs["method"] == "banzhaf"
        )
        np.testing.assert_allclose(scores[:, 0], found["banzhaf"].scores, rtol=1e-6)
        np.testing.assert_array_equal(coords, found.evidence.units.coords)
        assert (
            file["coords"].attrs["patch_size_level0"] == 256
            and file["coords"].attrs["patch_level"] == 0
        )
        assert file.attrs["output"] == "tumor"


def test_a_file_that_cannot_be_written_leaves_nothing_and_names_itself(found, tmp_path):
    with pytest.raises(OSError, match=r"nowhere.scores\.csv"):
        write_csv(found, tmp_path / "nowhere" / "scores.csv")
    with pytest.raises(ValueError, match=r"^coords: "):
        write_geojson(bag_model().explain(np.ones((3, 5)), ["shapley"]), tmp_path / "x.geojson")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seed", range(6))
def test_attention_against_does_not_depend_on_the_rounding_of_the_sum(seed):
    found = bag_model(seed=seed).explain(
        slide(seed=seed), ["shapley", "alpha-mean"], output="tumor"
    )
    weight = found["alpha-mean"].scores
    scores = found["shapley"].scores
    assert disagreement(found).attention_against == pytest.approx(weight[scores < 0].sum())


def test_attention_against_counts_the_attention_on_negative_scores(found):
    weight = found["alpha-mean"].scores
    scores = found["shapley"].scores
    assert 0 < (scores < 0).sum() < 12
    expected = sum(w for w, score in zip(weight, scores, strict=True) if score < 0) / sum(weight)
    gap = disagreement(found)
    assert gap.attention_against == pytest.approx(expected)
    assert (row(found)["attention_against"], row(found)["rank_correlation"]) == (
        gap.attention_against,
        gap.correlation,
    )
    alone = bag_model().explain(slide(), ["shapley"], output="tumor")
    assert (disagreement(alone) is None) == (row(alone)["attention_against"] is None)
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    assert gap.correlation == pytest.approx(stats.spearmanr(weight, scores).statistic)
    assert gap.magnitude_correlation == pytest.approx(
        stats.spearmanr(weight, np.abs(scores)).statistic
    )


def test_strongest_never_crosses_zero():
    top, bottom = strongest(np.array([0.1, -0.2, 0.3]), 5)
    assert top.tolist() == [2, 0] and bottom.tolist() == [1]


# The fields that QuPath documents for objects in GeoJSON.
QUPATH_OBJECTS = {"annotation", "detection", "cell", "tile", "tma_core"}
QUPATH_PROPERTIES = {
    "objectType",
    "name",
    "color",
    "classification",
    "isLocked",
    "measurements",
    "metadata",
}


def is_color(value):
    return (
        isinstance(value, list)
        and len(value) == 3
        and all(type(c) is int and 0 <= c <= 255 for c in value)
    )


def check_qupath(document):
    """Whether QuPath's GeoJSON reader has a documented meaning for every field of every feature."""
    assert document["type"] == "FeatureCollection" and document["features"]
    for feature in document["features"]:
        assert (
            set(feature) <= {"type", "id", "geometry", "properties"}
            and feature["type"] == "Feature"
        )
        geometry = feature["geometry"]
        properties = feature["properties"]
        assert geometry["type"] == "Polygon" and len(geometry["coordinates"]) == 1
        ring = geometry["coordinates"][0]
        assert ring[0] == ring[-1] and len(ring) == 5 and all(len(point) == 2 for point in ring)
        area = sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in pairwise(ring)) / 2
        assert area != 0
        assert set(properties) <= QUPATH_PROPERTIES and properties["objectType"] in QUPATH_OBJECTS
        assert is_color(properties["color"])
        assert set(properties["classification"]) <= {"name", "names", "color"}
        assert (
            is_color(properties["classification"]["color"]) and properties["classification"]["name"]
        )
        for name, number in properties["measurements"].items():
            assert isinstance(name, str) and isinstance(number, float) and np.isfinite(number)


def test_geojson_has_the_fields_that_qupath_documents(tmp_path):
    found = bag_model().explain(slide(), ["shapley", "alpha-mean"], output="tumor")
    write_geojson(found, tmp_path / "slide.geojson")
    document = json.loads((tmp_path / "slide.geojson").read_text(encoding="utf-8"))
    check_qupath(document)
    for path, wrong in (
        (("properties", "objectType"), "patch"),
        (("properties", "color"), [300, 0, 0]),
        (("properties", "measurements"), {"shapley": "0.5"}),
        (("geometry", "coordinates"), [[[0, 0], [0, 1], [1, 1]]]),
    ):
        broken = json.loads(json.dumps(document))
        broken["features"][0][path[0]][path[1]] = wrong
        with pytest.raises(AssertionError):
            check_qupath(broken)


def test_a_score_of_zero_opposes_nothing():
    found = bag_model().explain(slide(), ["shapley", "alpha-mean"], output="tumor")
    scores = np.zeros(found.evidence.d)
    scores[0] = -1.0
    found["shapley"] = dataclasses.replace(found["shapley"], scores=scores)
    weight = found["alpha-mean"].scores
    assert disagreement(found).attention_against == pytest.approx(weight[0] / weight.sum())


def test_several_outputs_go_to_every_file_with_their_names(tmp_path):
    names = ("a", "b", "c")
    several = list(
        explain_outputs(bag_model(C=3, outputs=names), slide(), ["shapley"], scale="logit").values()
    )
    write_csv(several, tmp_path / "scores.csv")
    with (tmp_path / "scores.csv").open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for each in several:
        scores = [float(row["shapley"]) for row in rows if row["output"] == each.output]
        assert scores == each["shapley"].scores.tolist()
    assert len(rows) == 3 * 12
    write_geojson(several, tmp_path / "slide.geojson")
    features = json.loads((tmp_path / "slide.geojson").read_text(encoding="utf-8"))["features"]
    assert len(features) == 12
    for each in several:
        measured = [f["properties"]["measurements"][f"shapley {each.output}"] for f in features]
        assert measured == each["shapley"].scores.tolist()
    sides = {f["properties"]["classification"]["name"] for f in features}
    assert sides <= {"for a", "against a"}, "the first output colors the tiles"
    with pytest.raises(ValueError, match=r"^explanations: "):
        write_csv([], tmp_path / "none.csv")


def test_parquet_and_h5_hold_several_outputs(tmp_path):
    names = ("a", "b", "c")
    several = list(
        explain_outputs(bag_model(C=3, outputs=names), slide(), ["shapley"], scale="logit").values()
    )
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    write_parquet(several, tmp_path / "scores.parquet")
    table = parquet.read_table(tmp_path / "scores.parquet")
    assert table["output"].to_pylist() == [name for name in names for _ in range(12)]
    facts = json.loads(table.schema.metadata[b"explanation"])
    assert [each["output"] for each in facts] == list(names)
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    write_h5(several, tmp_path / "scores.h5")
    with h5py.File(tmp_path / "scores.h5") as file:
        assert json.loads(file.attrs["outputs"]) == list(names)
        scores = np.stack([each["shapley"].scores for each in several], axis=1)
        np.testing.assert_array_equal(file["scores_of_outputs"][:], scores)
        assert file["attention_of_outputs"].shape == (12, 3)


def test_attention_that_differs_by_class_is_named_by_it():
    """The two heads of a network such as CLAM_MB belong to its two classes."""
    model = class_heads_model()
    several = list(explain_outputs(model, slide(), ["shapley"], scale="logit").values())
    titles = [title for title, _ in attentions(several)]
    assert titles == [f"Attention for {name}" for name in model.outputs]
    first, second = (weight for _, weight in attentions(several))
    assert not np.array_equal(first, second)
    one_head = bag_model(C=3, outputs=("a", "b", "c"))
    shared = list(explain_outputs(one_head, slide(), ["shapley"], scale="logit").values())
    assert [title for title, _ in attentions(shared)] == ["Attention"]

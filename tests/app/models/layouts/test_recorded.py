"""Every layout against what its network in torch said, without torch: tests/recorded/make.py made
the records.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from attn_closed_form import BagClassifier, Settings
from attn_closed_form.app.models.layouts import LAYOUTS
from tests.recorded import make

TOLERANCE = 1e-10  # float64 on both sides, as in test_layouts.py


records = cache(make.load_layouts)


def model_of(record, **changes):
    model = BagClassifier.from_state_dict(record["state"] | changes, **record["options"])
    assert model.layout == record["layout"]
    return replace(model, loss="softmax")  # classes have margins, and values of a regression do not


def check_agrees(model, record):
    """Logits, gradients, and the games of each output and of one margin on the sub-bags."""
    x = make.bag(record["columns"])
    masks = make.sub_bags()
    C = len(record["logits"])
    assert np.abs(model.predict_logits([x])[0] - record["logits"]).max() < TOLERANCE
    units = model.read(x)
    for output in [*map(str, range(C)), "margin:0,1"] if C > 1 else ["1"]:
        settings = Settings(output=output).resolve(model, model.logits(units))
        values = model.value(units, settings, masks)
        assert np.abs(values - record["sub_bags"] @ settings.coefficients).max() < TOLERANCE
    g = record["gradient"] * (settings.coefficients[0] if C > 1 else settings.coefficients[-1])
    expected = {"gradient-mean": g.mean(axis=1), "gradient-l2": np.linalg.norm(g, axis=1)}
    expected |= {"gradient-l1": np.abs(g).sum(axis=1), "gradient-x-input": (x * g).sum(axis=1)}
    for method, scores in expected.items():
        assert np.abs(model.inside(method, units, settings) - scores).max() < TOLERANCE, method


@pytest.mark.parametrize("name", records())
def test_layout_agrees_with_its_record(name):
    check_agrees(model_of(records()[name]), records()[name])


def test_every_layout_has_a_record():
    """All but those without a network of their own: means, and arrays that the user names."""
    assert {record["layout"] for record in records().values()} == set(LAYOUTS) - {
        "mean",
        "roles",
        "softmax_probe",
    }


def test_a_file_that_torch_wrote():
    """The door of bags: the file of a trained network, read without torch."""
    record = records()["clam-sb"]
    check_agrees(BagClassifier.from_state_dict(make.CLAM), record)


@pytest.mark.parametrize("name", records())
def test_agreement_can_fail(name):
    """A weight that differs in the third digit is noticed."""
    record = records()[name]
    # Not those of the parts that play no role in the prediction.
    idle = ("instance_classifiers.", "feature_extractor_part1.", "message_passing.")
    idle += ("model.wav2vec2.", "model.hubert.", "model.vision_model.")
    key = next(
        k for k in record["state"] if k.endswith(("weight", "vars.0")) and not k.startswith(idle)
    )
    with pytest.raises(AssertionError):
        check_agrees(model_of(record, **{key: record["state"][key] * 1.001}), record)


@pytest.mark.parametrize("name", records())
def test_the_record_is_what_torch_says(name):
    torch = pytest.importorskip("torch", reason="compares the records with their networks")
    from tests.app.models.layouts import networks

    assert records().keys() == networks.CASES.keys()
    record = records()[name]
    case = networks.case(name)
    assert (record["layout"], record["options"], record["columns"]) == (
        case.layout,
        case.options,
        case.columns,
    )
    case.network.load_state_dict(
        {key: torch.as_tensor(array) for key, array in record["state"].items()}
    )
    for key, array in make.answers(case.network, case.columns).items():
        assert np.abs(array - record[key]).max() < TOLERANCE, key

"""`attn-closed-form probe`: which tokens made a probe on a language model's activations fire."""

from __future__ import annotations

import argparse
import shutil
import sys
from dataclasses import asdict

import numpy as np

from ..explanations.explain import explain
from ..files.activations import load_activations
from ..models.probe import Activations, ProbeClassifier
from ..show.terminal import groups_text
from .bag import named_option
from .explain import VIEWS, show
from .options import Command, check_targets, read_settings, settings_options


def explain_probe(args: argparse.Namespace) -> int:
    """Explain a probe on the activations of one text."""
    if args.figure and not args.plot:
        raise argparse.ArgumentTypeError("--figure: expected --plot FILE as well, for the figure")
    if args.tokens is None:
        raise argparse.ArgumentTypeError("--tokens: expected the file of the tokens, got none")
    sources = (args.probe, args.activations, args.tokens)
    check_targets(sources, args, ("html", "plot", "csv"))
    settings = read_settings(args)
    classes = None
    if args.classes:
        classes = [name.strip() for name in args.classes.split(",")]
    model = ProbeClassifier.from_state_dict(args.probe, args.layout, classes, **dict(args.set))
    given = load_activations(args.activations, args.tokens, args.array)
    if args.logits:
        _check_logits(model, given, args.logits)
    methods = args.method
    if methods is None:
        # The attention is there to compare with.
        methods = [settings.headline(model, given), "alpha-mean"]
    explanations = explain(model, given, methods, **asdict(settings))
    status = show(explanations, args)
    if args.groups and not args.json and args.html != "-":
        columns = shutil.get_terminal_size((100, 24)).columns
        print("\n" + groups_text(explanations, args.groups, columns))
    return status


def _check_logits(model: ProbeClassifier, given: Activations, logits: str) -> None:
    """Raise an error unless the probe's logits are those that the user's own code computes."""
    try:
        yours = np.array([float(number) for number in logits.split(",")])
    except ValueError:
        raise argparse.ArgumentTypeError(f"--logits: expected numbers, got {logits!r}") from None
    ours = model.predict_logits([given])[0]
    if ours.shape != yours.shape:
        raise argparse.ArgumentTypeError(
            f"--logits: expected {len(ours)} numbers, got {len(yours)}"
        )
    difference = float(np.abs(ours - yours).max())
    # The largest difference of a probe's logits that `--logits` accepts, relative to the largest:
    # the numbers of a probe in bfloat16 have three digits.
    logits_tol = 1e-2
    if difference > logits_tol * float(np.abs(yours).max()):
        raise ValueError(
            f"--logits: the logits of the file are {ours.round(4).tolist()}, and differ by "
            f"{difference:.3g}; options that the file does not contain may be others "
            f"({model.doubts or 'none are assumed'})"
        )
    print(f"checked: the logits differ by {difference:.1e}", file=sys.stderr)


probe_command = Command(
    description="Explain a probe on the activations of a language model: which tokens made it "
    "fire.",
    options={
        "probe PROBE": "state dict of the probe (.pt, .pth, .safetensors, .npz)",
        "activations "
        "ACTIVATIONS": "activations of one text (tokens, width): .npy, .npz, .safetensors, .pt, "
        ".h5",
        "--tokens TOKENS": "the tokens: a JSON list, or a text file with one token per line",
        "--array NAME": "name of the array in a file of several",
        "--logits X[,Y]": "the logits of your own probe for this text, to compare with",
        "--groups sentences|turns|words": "also print the Owen values of sentences, turns or words",
        "the probe": {
            "--layout NAME": (None, "auto", "layout of the state dict"),
            "--classes A,B": "names of the classes (default: no,yes for one output)",
            "--set NAME=VALUE...": (
                named_option,
                [],
                "an option that the file does not contain, such as attention_temperature=5",
            ),
        },
        **settings_options(
            "tokens (default up to 20,000 of them), words, turns or sentences", "deleted"
        ),
        # Tuning: the accuracy of probes, whose texts are long: six digits, and half the time of
        # ten.
        "--tol X": (float, 1e-6, "relative accuracy to guarantee"),
        **VIEWS,
    },
    run=explain_probe,
    examples="""\
examples:
  attn-closed-form probe probe.pt layer20.npy --tokens tokens.json --html report.html
  attn-closed-form probe probe.safetensors acts.safetensors --tokens tokens.txt --scale logit --top
  20 attn-closed-form probe probe.pt acts.pt --tokens chat.json --groups turns attn-closed-form
  probe linear.pt acts.npy --tokens tokens.json --layout softmax_probe --set attention_temperature=5

ACTIVATIONS has one row per token (.npy, .npz, .safetensors, .pt, .h5). TOKENS is a JSON list of tokens, or an object
with "tokens" and "turns", or a text file with one token per line. No code in a file is run. The activations are frozen,
so this explains the probe and not the language model.
""",  # noqa: E501
)

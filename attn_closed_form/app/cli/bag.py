"""`attn-closed-form bag`: from a bag of a multiple-instance network to a signed map, tables,
GeoJSON and a report.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..explanations.explain import explain, explain_outputs
from ..explanations.explanation import Explanation, Explanations
from ..explanations.settings import Settings
from ..files.arrays import read_state
from ..files.atomic import regular_file, replacing
from ..files.bags import load_bag
from ..files.tables import read_rows
from ..models.bag_check import variants
from ..models.bag_classifier import OUTPUT_KINDS, BagClassifier
from ..models.layouts import proposals
from ..models.protocol import BagModel
from ..models.scale import percent
from ..show.exports import KINDS, row, write_geojson
from ..show.figures import leader, sampling, saturation
from ..show.maps import bag_sentence, player_table, runner_up_sentence, strongest
from ..show.sanitize import elide, visible
from ..show.terminal import aligned
from .corpus import RUN, explain_all
from .options import (
    MAX_ERROR,
    SCALE,
    TOL,
    Command,
    at_least,
    check_targets,
    csv_file,
    method_names,
    read_settings,
)

# The kinds of files that can be written for a bag.
FILE_KINDS = tuple(KINDS)


def _settings(args: argparse.Namespace) -> Settings:
    # The side of a region asks for regions as players.
    if args.region is not None and args.players is None:
        args.players = "regions"
    return read_settings(args)


def _model_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the network as keyword arguments of `BagClassifier.from_state_dict`."""
    if args.classes:
        classes = [name.strip() for name in args.classes.split(",")]
    else:
        classes = None
    options: dict[str, Any] = {
        "layout": args.layout,
        "outputs": classes,
        "head": args.head,
        **dict(args.set),
    }
    if args.rename:
        options["roles"] = _read_roles(args.rename)
    if args.check:
        options |= _options_that_agree(args.model, options, args.check)
    return options


def _read_roles(path: str) -> dict[str, Any]:
    """Return the roles of layers from a JSON file that the user wrote."""
    try:
        roles = json.loads(regular_file(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: expected a JSON object of roles and layers ({error})") from None
    if not isinstance(roles, dict):
        raise ValueError(
            f"{path}: expected a JSON object of roles and layers, got {type(roles).__name__}"
        )
    return roles


def _options_that_agree(model: str, options: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the options with which a file agrees with the logits of a table of bags, or raise an
    error.
    """
    rows = list(read_rows(path))
    if not rows or "bag" not in rows[0] or len(rows[0]) < 2:
        raise ValueError(
            f"{path}: expected a column 'bag' with files and one column of logits per class"
        )
    try:
        logits = [[float(value) for name, value in row.items() if name != "bag"] for row in rows]
    except ValueError:
        raise ValueError(f"{path}: expected numbers in every column except 'bag'") from None
    bags = [load_bag(Path(path).parent / str(row["bag"])) for row in rows]
    result = BagClassifier.from_state_dict(model, **options).check(bags, logits)
    # An error if nothing explains the difference.
    _ = result.model
    print(
        f"checked on {len(bags)} bags: {result.cause or f'difference {result.difference:.1e}'}",
        file=sys.stderr,
    )
    return {**result.options, "checked": True}


def propose(args: argparse.Namespace) -> int:
    """List the arrays of a file, propose their roles, and compare with the logits of a bag if they
    are given.
    """
    check_targets((args.model, args.bag), args, ("out",))
    state = read_state(args.model)
    for name, array in state.arrays.items():
        print(f"{visible(name):<50} {tuple(array.shape)}")
    several = proposals(state)
    if not several:
        raise ValueError(
            f"{args.model}: no assignment of roles uses every layer as embedding, attention or "
            'classifier; write the JSON yourself, with the prefixes of unused names under "leave"'
        )
    if args.logits:
        bag = load_bag(args.bag)
        yours = np.array([float(number) for number in args.logits.split(",")])
        trials = []
        for roles in several:
            model = BagClassifier.from_state_dict(state.arrays, roles=roles)
            # Roles whose first layer has another width than the features cannot be right.
            if bag.features.shape[1] != model.network.D:
                continue
            assert model.reload is not None  # it came from a file
            for options in ({}, *variants(model)):
                logits = model.reload(**options).predict_logits([bag])[0]
                if logits.shape != yours.shape:
                    continue
                full = dict(roles)
                if options:
                    full["options"] = options
                trials.append((float(np.abs(logits - yours).max()), full))
        if not trials:
            raise ValueError(
                f"{args.bag}: expected features and logits whose sizes match the layers"
            )
        difference, best = min(trials, key=lambda trial: trial[0])
        several = [best, *(roles for roles in several if roles != best)]
        print(f"\nlargest difference from your logits: {difference:.2g}", file=sys.stderr)
    print(f"\n{json.dumps(several[0])}")
    for roles in several[1 : args.top]:
        print(f"or {json.dumps(roles)}")
    if args.out:
        with replacing(args.out) as partial:
            partial.write_text(json.dumps(several[0], indent=1) + "\n", encoding="utf-8")
    return 0


def named_option(text: str) -> list[tuple[str, Any]]:
    """Parse NAME=VALUE; the value is a number, true, false or a name."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    try:
        # Numbers and truth values are JSON; a bare name such as relu is not.
        return [(name, json.loads(value))]
    except ValueError:
        return [(name, value)]


def explain_one(args: argparse.Namespace) -> int:
    """Explain one bag, write the files, and print the strongest instances."""
    if args.out:
        raise argparse.ArgumentTypeError(
            "--out: expected a folder of bags; for one bag, use --map, --csv and so on"
        )
    if args.thumbnail and not (args.map or args.report):
        raise argparse.ArgumentTypeError(
            "--thumbnail: expected --map FILE or --report FILE as well, to show it"
        )
    check_targets((args.model, args.bag, args.thumbnail, args.rename, args.check), args, FILE_KINDS)
    settings = asdict(_settings(args))
    model = BagClassifier.from_state_dict(args.model, **_model_options(args))
    bag = load_bag(args.bag)
    if args.region is not None:
        bag = bag.in_regions(args.region)
    if args.thumbnail:
        bag = replace(bag, attrs={**bag.attrs, "thumbnail": regular_file(args.thumbnail)})
    methods = args.method
    if methods is None:
        methods = [_settings(args).headline(model, bag)]
    explanations = explain(model, bag, methods, **settings)
    several = [explanations]
    if args.each_output:
        # The predicted class comes first; it colors the tiles of files that have one color.
        del settings["output"]
        others = [name for name in model.outputs if name != explanations.output]
        several += explain_outputs(model, bag, methods, others, **settings).values()
    for kind in FILE_KINDS:
        path = getattr(args, kind)
        if kind == "geojson" and path:
            write_geojson(several, path, microns_per_pixel=args.microns_per_pixel)
        elif path:
            KINDS[kind].write(several, path)
        if path:
            print(f"wrote {path}", file=sys.stderr)
    if args.json:
        _print_json(args, several)
        return 0
    for number, each in enumerate(several):
        if number:
            print()
        _print(args, each)
    return 0


def _print_json(args: argparse.Namespace, several: list[Explanations]) -> None:
    """Print the facts of a bag, and the labels and scores of its strongest instances; with several
    outputs, a list of them with the same for each.
    """
    name = Path(args.bag).stem
    entries = []
    for explanations in several:
        leading = leader(explanations)
        entry = {"bag": name, **row(explanations)}
        sides = strongest(leading.scores, args.top)
        for side, players in zip(("top", "bottom"), sides, strict=True):
            entry[side] = [_scored(leading, j) for j in players.tolist()]
        entries.append(entry)
    if args.each_output:
        print(json.dumps({"bag": name, "outputs": entries}))
    else:
        print(json.dumps(entries[0]))


def _scored(e: Explanation, j: int) -> list[str | float]:
    """Return the label and the score of a player, and its standard error if it is sampled."""
    scored: list[str | float] = [e.labels[j], float(e.scores[j])]
    if e.standard_error is not None:
        scored.append(float(e.standard_error[j]))
    return scored


def _print(args: argparse.Namespace, explanations: Explanations) -> None:
    """Print what a bag's instances add up to, and the strongest of them."""
    leading = leader(explanations)
    facts = row(explanations)
    (best, worst) = strongest(leading.scores, args.top)
    output = visible(explanations.output)
    scale = explanations.scale
    print(visible(bag_sentence(explanations)))
    if scale.link is None and facts["probability"] is not None:
        print(f"The probability of {output} is {percent(facts['probability'])}.")
    print(visible(explanations.explained))
    if sampled := sampling(leading):
        print(visible(sampled))
    if rival := runner_up_sentence(explanations):
        print(visible(rival))
    if saturated := saturation(explanations):
        print(visible(saturated))
    if facts["assumed"]:
        print(visible(facts["assumed"]))
    for side, players in (("for", best), ("against", worst)):
        print(f"\n{leading.info.label}, strongest {side} {output}:")
        titles, rows = player_table(explanations, players)
        lines = [[elide(visible(name), 24), *cells] for name, cells in rows]
        if lines:
            print(aligned([titles, *lines]))
        else:
            print("none")
    if facts["attention_against"] is not None:
        print(
            f"\n{percent(facts['attention_against'])} of the attention is on instances that oppose "
            f"{output}; rank correlation of attention and scores {facts['rank_correlation']:+.2f}"
        )


def explain_folder(args: argparse.Namespace) -> int:
    """Explain every bag of a folder; the status is 1 if none of them could be explained."""
    from ..run.inputs import input_files
    from ..run.summary import BAG_TABLE, write_bag_table
    from ..run.task import Task

    if not args.out:
        raise argparse.ArgumentTypeError(
            "--out: expected the folder for the results, because BAG is a folder"
        )
    for kind in (*FILE_KINDS, "thumbnail", "each_output"):
        if getattr(args, kind):
            option = "--" + kind.replace("_", "-")
            raise argparse.ArgumentTypeError(
                f"{option}: only for a single bag; use --files for a folder of bags"
            )
    task = Task(
        column="path",
        model=str(Path(args.model).resolve()),
        model_options=_model_options(args),
        settings=_settings(args),
        region=args.region,
        files=tuple(name.strip() for name in args.files.split(",") if name.strip()),
    )
    input_files(args.bag)  # a folder without bags is reported before the model is opened
    model = task.opened()
    if isinstance(model, BagModel):
        task = task.settled(args.method)
    else:
        raise ValueError(
            f"{args.model}: expected a network that pools bags, got one whose input is a "
            f"{model.input_name}"
        )
    status = explain_all(args, task, source=args.bag, folder=args.out, unit="bags")
    # A run that was interrupted before its first part has no folder.
    bags = write_bag_table(args.out) if os.path.isdir(args.out) else []
    for bag in bags:
        if bag["error"]:
            print(f"{visible(bag['bag'])}: {visible(bag['error'])}", file=sys.stderr)
    print(f"wrote {Path(args.out) / BAG_TABLE}", file=sys.stderr)
    return status


# The options of `bag`, in groups.
BAG_OPTIONS = {
    "model MODEL": "state dict of the network (.pt, .pth, .safetensors, .npz)",
    "bag BAG": "a bag (.h5, .pt, .npy, .npz, .safetensors), or a folder of bags",
    "--top N": (at_least(0), 5, "instances to print on each side"),
    "--json": "print one JSON object instead of the table",
    "the network": {
        "--layout NAME": (None, "auto", "layout of the state dict"),
        "--classes A,B": "names of the classes, in the order of the last layer",
        f"--head {'|'.join(OUTPUT_KINDS)}": (None, "classes", "meaning of the outputs"),
        "--rename FILE": (
            "JSON file with the layers embed, V, U, w and classifier, as written by `roles`"
        ),
        "--check FILE": (
            "table with a column `bag` of files (two sizes or more) and columns of logits of your "
            "network"
        ),
        "--set NAME=VALUE...": (
            named_option,
            [],
            "an option that the file does not store; repeatable (default: none)",
        ),
    },
    "explanation": {
        "--output NAME": "class, index, or margin:A,B (default: the predicted class)",
        "--each-output": "explain every class, in every file",
        "--method NAME[,NAME]": (
            method_names,
            None,
            "methods to use (default: shapley, or shapley-sampled where no exact values exist)",
        ),
        "--players instances|regions": (
            "what gets a score (default: instances, or regions with --region)"
        ),
        "--region SIDE": (float, None, "side of a region, in the unit of the coordinates"),
        **TOL,
        **MAX_ERROR,
        **SCALE,
    },
    "files": {
        **{f"--{name} FILE": kind.help for name, kind in KINDS.items()},
        "--csv FILE": (csv_file, None, KINDS["csv"].help),
        "--thumbnail FILE": "picture of the slide to draw under the map; PNG or JPEG for --report",
        "--microns-per-pixel X": (
            float,
            None,
            "resolution of level 0, for --geojson with coordinates in micrometers",
        ),
    },
    "a folder of bags": {
        "--out FOLDER": "folder for the files of each bag and bags.csv",
        "--files KINDS": (
            None,
            "csv,map",
            f"files to write for each bag, among {','.join(FILE_KINDS)}",
        ),
        **RUN,
    },
}
bag_command = Command(
    description="Exact, signed, per-class explanations of attention-pooling multiple-instance "
    "networks.",
    options=BAG_OPTIONS,
    run=lambda args: explain_folder(args) if os.path.isdir(args.bag) else explain_one(args),
    examples="""\
examples:
  attn-closed-form bag model.pt slide.h5 --classes normal,tumor --output tumor --map map.png
  attn-closed-form bag model.pt slide.h5 --output 1 --csv scores.csv --geojson slide.geojson --report slide.html
  attn-closed-form bag model.pt slide.h5 --each-output --map classes.png --csv classes.csv
  attn-closed-form bag model.pt slide.h5 --players regions --region 4096 --map regions.png
  attn-closed-form bag model.pt slides/ --out results/ --files csv,map,report       # a folder, resumable

The model is a state dict (.pt, .safetensors, .npz) of CLAM, ABMIL, xMIL, torchmil, MIL-Lab and others; no code in it is
run. --set passes options that the file does not store, such as --set activation=relu. On the map, orange tiles support
the output and blue ones oppose it.
""",  # noqa: E501
)
roles_command = Command(
    description="List the arrays of a state dict with unknown names, and propose the role of each "
    "layer, for `bag --rename`.",
    options={
        "model MODEL": BAG_OPTIONS["model MODEL"],
        "[bag] BAG": "a bag to compare with --logits",
        "--logits X,Y": (
            "the logits of your network for BAG; the proposal that fits best is printed first"
        ),
        "--top N": (at_least(1), 3, "proposals to print"),
        "--out FILE": "write the first proposal as JSON",
    },
    run=propose,
)

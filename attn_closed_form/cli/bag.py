"""`attn-closed-form bag`: a bag of a multiple-instance network to a signed map, tables, GeoJSON and a report."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..explanations.explain import explain
from ..explanations.settings import Settings
from ..files.bags import load_bag
from ..models.bag_classifier import BagClassifier
from ..show.sanitize import elide, visible
from .corpus import add_run_options, explain_all
from .options import at_least, check_targets, method_names

if TYPE_CHECKING:
    from ..explanations.explanation import Explanations

EXAMPLES = """\
examples:
  attn-closed-form bag model.pt slide.h5 --classes normal,tumour --output tumour --map map.png
  attn-closed-form bag model.pt slide.h5 --output 1 --csv scores.csv --geojson slide.geojson --report slide.html
  attn-closed-form bag model.pt slide.h5 --each-output --map classes.png            # one map per class
  attn-closed-form bag model.pt slide.h5 --players regions --region 4096 --map regions.png
  attn-closed-form bag model.pt slides/ --out results/ --files csv,map,report       # a folder, resumable

The model is a state dict (.pt, .safetensors, .npz) of CLAM, ABMIL, xMIL, torchmil, MIL-Lab and others; no code in it is
run. What its file does not say is given with --set, such as --set activation=relu. On the map, orange tiles support
the output and blue ones oppose it.
"""
FILES = ("map", "csv", "parquet", "geojson", "h5", "report")


def add_bag(parser: argparse.ArgumentParser) -> None:
    """Add the options of `bag`."""
    parser.description = "Exact, signed, per-class explanations of attention-pooling multiple-instance networks."
    parser.epilog = EXAMPLES
    parser.add_argument("model", metavar="MODEL", help="state dict of the network (.pt, .pth, .safetensors, .npz)")
    parser.add_argument("bag", metavar="BAG", help="a bag (.h5, .pt, .npy, .npz, .safetensors), or a folder of bags")
    network = parser.add_argument_group("the network")
    network.add_argument("--layout", default="auto", metavar="NAME", help="layout of the state dict (default: auto)")
    network.add_argument("--classes", metavar="A,B", help="names of the classes, in the order of the last layer")
    network.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="what the file does not say; repeatable"
    )
    what = parser.add_argument_group("what to explain")
    what.add_argument("--output", metavar="NAME", help="class, index, or margin:A,B (default: the predicted class)")
    what.add_argument("--each-output", action="store_true", help="one map per class")
    what.add_argument("--method", type=method_names, metavar="NAME[,NAME]", help="methods to use (default: shapley)")
    what.add_argument("--players", choices=("instances", "regions"), help="what gets a score (default: instances)")
    what.add_argument("--region", type=float, metavar="SIDE", help="side of a region, in the unit of the coordinates")
    what.add_argument("--tol", type=float, default=1e-10, help="relative accuracy to guarantee (default: 1e-10)")
    files = parser.add_argument_group("files")
    files.add_argument("--map", metavar="FILE", help="signed heat map (.png, .svg, .pdf; needs matplotlib)")
    files.add_argument("--thumbnail", metavar="FILE", help="picture of the slide to draw under the map")
    files.add_argument("--csv", metavar="FILE", help="table of scores (.csv, .tsv)")
    files.add_argument("--parquet", metavar="FILE", help="the same as Parquet (needs pyarrow)")
    files.add_argument("--geojson", metavar="FILE", help="tiles for QuPath")
    files.add_argument(
        "--microns-per-pixel", type=float, metavar="X", help="of level 0, for --geojson of coordinates in micrometres"
    )
    files.add_argument("--h5", metavar="FILE", help="scores and coords as CLAM and TRIDENT read them (needs h5py)")
    files.add_argument("--report", metavar="FILE", help="self-contained HTML report")
    files.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.add_argument(
        "--top", type=at_least(0), default=5, metavar="N", help="instances to print on each side (default: 5)"
    )
    folder = parser.add_argument_group("a folder of bags")
    folder.add_argument("--out", metavar="FOLDER", help="where the files of each bag and bags.csv go")
    folder.add_argument("--files", default="csv,map", metavar="KINDS", help=f"of {','.join(FILES)} (default: csv,map)")
    add_run_options(folder)
    parser.set_defaults(run=lambda args: explain_folder(args) if os.path.isdir(args.bag) else explain_one(args))


def _settings(args: argparse.Namespace) -> Settings:
    players = "regions" if args.region is not None and args.players is None else args.players
    try:
        return Settings(players=players, output=args.output, tol=args.tol)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"--{error}") from None


def _model_options(args: argparse.Namespace) -> dict[str, Any]:
    """What the options tell about the network, as keyword arguments of `BagClassifier.from_state_dict`."""
    classes = [name.strip() for name in args.classes.split(",")] if args.classes else None
    return {"layout": args.layout, "outputs": classes, **dict(_option(text) for text in args.set)}


def _option(text: str) -> tuple[str, Any]:
    """NAME=VALUE; the value is a number, true or false where it reads as one, else a name."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"--set: expected NAME=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def explain_one(args: argparse.Namespace) -> int:
    """Explain one bag, write the files, and print the strongest instances."""
    from ..show.exports import KINDS, write_geojson

    if args.out:
        raise argparse.ArgumentTypeError("--out: expected a folder of bags; one bag takes --map, --csv and so on")
    if args.thumbnail and not args.map:
        raise argparse.ArgumentTypeError("--thumbnail: expected --map FILE beside it, where the map is written")
    check_targets((args.model, args.bag, args.thumbnail), args, FILES)
    settings, methods = _settings(args), args.method or ["shapley"]
    model = BagClassifier.from_state_dict(args.model, **_model_options(args))
    bag = load_bag(args.bag)
    if args.region is not None:
        bag = bag.in_regions(args.region)
    explanations = explain(model, bag, methods, **asdict(settings))
    for kind in FILES:
        path = getattr(args, kind)
        if not path:
            continue
        if kind == "map":
            _draw_map(args, explanations, settings)
        elif kind == "geojson":
            write_geojson(explanations, path, microns_per_pixel=args.microns_per_pixel)
        else:
            KINDS[kind].write(explanations, path, None)
        print(f"wrote {path}", file=sys.stderr)
    _print(args, explanations)
    return 0


def _draw_map(args: argparse.Namespace, explanations: Explanations, settings: Settings) -> None:
    from ..explanations.explain import explain_outputs
    from ..show.plots import heat_map

    panels = [explanations]
    if args.each_output:
        options = {name: value for name, value in asdict(settings).items() if name != "output"}
        bag = explanations.evidence.units.data
        panels = list(explain_outputs(explanations.evidence.model, bag, list(explanations), **options).values())
    heat_map(panels, args.map, thumbnail=args.thumbnail)


def _print(args: argparse.Namespace, explanations: Explanations) -> None:
    from ..show.exports import row
    from ..show.figures import leader
    from ..show.maps import columns, strongest, written

    leading = leader(explanations)
    best, worst = strongest(leading.scores, args.top)
    if args.json:
        ends = {name: [[leading.labels[j], float(leading.scores[j])] for j in js] for name, js in
                (("top", best), ("bottom", worst))}  # fmt: skip
        print(json.dumps({"bag": Path(args.bag).stem, **row(explanations), **ends}))
        return
    facts = row(explanations)
    chance = "" if facts["probability"] is None else f", probability {facts['probability']:.1%}"
    output, (labels, *table) = visible(explanations.output), columns(explanations).items()
    print(f"{output} {explanations.prediction:+.4f}{chance}; {facts['empty_bag']:+.4f} for the empty bag")
    for title, players in (("for", best), ("against", worst)):
        print(f"\n{leading.info.label}, strongest {title} {output}:")
        for j in players:
            numbers = (f"  {name} {written(name, values[j]):>9}" for name, values in table)
            print(f"{elide(visible(labels[1][j]), 24):>10}{''.join(numbers)}")
        if not len(players):
            print("      none")
    if facts["attention_against"] is not None:
        print(
            f"\n{facts['attention_against']:.1%} of the attention is on instances that oppose "
            f"{output}; rank correlation of attention and scores {facts['rank_correlation']:+.2f}"
        )


def explain_folder(args: argparse.Namespace) -> int:
    """Explain every bag of a folder; status 1 if none of them could be explained."""
    from ..run.plan import input_files
    from ..run.summary import BAG_TABLE, write_bag_table
    from ..run.task import Task

    if not args.out:
        raise argparse.ArgumentTypeError("--out: expected the folder for the results, because BAG is a folder")
    for kind in (*FILES, "thumbnail", "each_output"):
        if getattr(args, kind):
            option = "--" + kind.replace("_", "-")
            raise argparse.ArgumentTypeError(f"{option}: is for one bag; --files chooses what a folder of bags gets")
    task = Task(
        column="path",
        methods=tuple(args.method or ["shapley"]),
        model=str(Path(args.model).resolve()),
        model_options=_model_options(args),
        settings=_settings(args),
        region=args.region,
        files=tuple(name.strip() for name in args.files.split(",") if name.strip()),
    )
    input_files(args.bag)  # a folder without bags is reported before the model is opened
    if task.opened().reads != "a bag":
        raise ValueError(f"{args.model}: expected a network that pools bags, got one that reads {task.opened().reads}")
    status = explain_all(args, task, args.bag, args.out, unit="bags")
    for row in write_bag_table(args.out) if os.path.isdir(args.out) else ():
        if row["error"]:
            print(f"{visible(row['bag'])}: {visible(row['error'])}", file=sys.stderr)
    print(f"wrote {Path(args.out) / BAG_TABLE}", file=sys.stderr)
    return status

"""`attn-closed-form bag`: a bag of a multiple-instance network to a signed map, tables, GeoJSON and a report."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..explanations.settings import Settings
from .explain import method_names

if TYPE_CHECKING:
    from ..explanations.explanation import Explanations
    from ..run.bags import BagTask

EXAMPLES = """\
examples:
  attn-closed-form bag model.pt slide.h5 --classes normal,tumour --output tumour --map map.png
  attn-closed-form bag model.pt slide.h5 --output 1 --csv scores.csv --geojson slide.geojson --report slide.html
  attn-closed-form bag model.pt slide.h5 --each-output --map classes.png            # one map per class
  attn-closed-form bag model.pt slide.h5 --players regions --region 4096 --map regions.png
  attn-closed-form bag model.pt slides/ --out results/ --files csv,map,report       # a folder, resumable

The model is a state dict (.pt, .safetensors, .npz) of CLAM, ABMIL, xMIL, torchmil, MIL-Lab and others; no code in it is
run. What its file does not say is given with --set, such as --set activation=relu. On the map, orange tiles speak for
the output and blue ones against it.
"""
FILES = ("map", "csv", "parquet", "geojson", "h5", "report")


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "bag",
        help="explain a bag (such as a slide) of an attention-pooling network",
        description="Exact, signed, per-class explanations of attention-pooling multiple-instance networks.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
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
    parser.add_argument("--top", type=int, default=5, metavar="N", help="instances to print on each side (default: 5)")
    folder = parser.add_argument_group("a folder of bags")
    folder.add_argument("--out", metavar="FOLDER", help="where the files of each bag and bags.csv go")
    folder.add_argument("--files", default="csv,map", metavar="KINDS", help=f"of {','.join(FILES)} (default: csv,map)")
    folder.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    folder.add_argument("--scheduler", metavar="ADDRESS", help="use a Dask cluster instead of local processes")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Explain one bag, or a folder of them."""
    return explain_folder(args) if os.path.isdir(args.bag) else explain_one(args)


def read_task(args: argparse.Namespace) -> BagTask:
    """What the options ask of each bag."""
    from ..run.bags import BagTask

    try:
        settings = Settings(players=args.players, output=args.output, tol=args.tol)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"--{error}") from None
    if args.region is not None and args.players is None:
        settings = Settings(**{**asdict(settings), "players": "regions"})
    return BagTask(
        model=str(Path(args.model).resolve()),
        layout=args.layout,
        outputs=tuple(name.strip() for name in args.classes.split(",")) if args.classes else (),
        options=json.dumps(dict(_option(text) for text in args.set), sort_keys=True),
        methods=tuple(args.method or ["shapley"]),
        settings=settings,
        region=args.region,
        files=tuple(name.strip() for name in args.files.split(",") if name.strip()),
    )


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
    from ..run.bags import explain_bag
    from ..show.exports import KINDS, write_geojson

    if args.out:
        raise argparse.ArgumentTypeError("--out: expected a folder of bags; one bag takes --map, --csv and so on")
    if args.thumbnail and not args.map:
        raise argparse.ArgumentTypeError("--thumbnail: expected --map FILE beside it, which says where the map goes")
    _check_targets(args)
    task = read_task(args)
    found = explain_bag(task, args.bag)
    for kind in FILES:
        path = getattr(args, kind)
        if not path:
            continue
        if kind == "map":
            _draw_map(args, task, found)
        elif kind == "geojson":
            write_geojson(found, path, microns_per_pixel=args.microns_per_pixel)
        else:
            KINDS[kind].write(found, path, None)
        print(f"wrote {path}", file=sys.stderr)
    _print(args, found)
    return 0


def _check_targets(args: argparse.Namespace) -> None:
    """No output file may replace an input, and no two may be one file."""
    seen = {os.path.realpath(path) for path in (args.model, args.bag, args.thumbnail) if path}
    for kind in FILES:
        path = getattr(args, kind)
        if path and os.path.realpath(path) in seen:
            raise argparse.ArgumentTypeError(f"--{kind}: expected a file of its own, got {path!r}")
        if path:
            seen.add(os.path.realpath(path))


def _draw_map(args: argparse.Namespace, task: BagTask, found: Explanations) -> None:
    from ..explanations.explain import explain_outputs
    from ..show.plots import heat_map

    several = [found]
    if args.each_output:
        settings = {name: value for name, value in asdict(task.settings).items() if name != "output"}
        bag = found.evidence.units.data
        several = list(explain_outputs(found.evidence.model, bag, task.methods, **settings).values())
    heat_map(several, args.map, thumbnail=args.thumbnail)


def _print(args: argparse.Namespace, found: Explanations) -> None:
    from ..show.exports import listed, row
    from ..show.figures import leader
    from ..show.maps import strongest
    from ..show.sanitize import visible

    e = leader(found)
    best, worst = strongest(e.scores, args.top)
    if args.json:
        ends = {name: [[e.labels[j], float(e.scores[j])] for j in js] for name, js in
                (("top", best), ("bottom", worst))}  # fmt: skip
        print(json.dumps({"bag": Path(args.bag).stem, **row(found), **ends}))
        return
    facts = row(found)
    chance = "" if facts["probability"] is None else f", probability {facts['probability']:.1%}"
    print(f"{visible(found.output)} {found.prediction:+.4f}{chance}; {facts['empty_bag']:+.4f} for the empty bag")
    for title, players in (("for", best), ("against", worst)):
        print(f"\n{e.info.label}, strongest {title} {visible(found.output)}:")
        print("\n".join(listed(found, players)) or "      none")
    if facts["attention_against"] is not None:
        print(
            f"\n{facts['attention_against']:.1%} of the attention is on instances that speak against "
            f"{visible(found.output)}; rank correlation of attention and scores {facts['rank_correlation']:+.2f}"
        )


def explain_folder(args: argparse.Namespace) -> int:
    """Explain every bag of a folder; status 1 if none of them could be explained, now or before."""
    from .._progress import bar
    from ..run.bags import collect, plan_bags, run_bags
    from ..run.cluster import Cluster
    from ..run.mappers import Mapper, Processes
    from ..show.sanitize import visible

    if not args.out:
        raise argparse.ArgumentTypeError("--out: expected the folder for the results, because BAG is a folder")
    given = [f"--{kind}" for kind in (*FILES, "thumbnail", "each_output") if getattr(args, kind)]
    if given:
        raise argparse.ArgumentTypeError(f"{given[0]}: is for one bag; --files says what a folder of bags gets")
    if args.workers < 1:
        raise argparse.ArgumentTypeError(f"--workers: expected at least 1, got {args.workers}")
    task = read_task(args)
    missing, done = plan_bags(args.bag, args.out, task)
    if done:
        print(f"{len(done)} of {len(done) + len(missing)} bags are there already", file=sys.stderr)
    mapper: Mapper = Cluster(args.scheduler) if args.scheduler else Processes(args.workers)
    failed = 0
    with bar("explaining", len(done) + len(missing), "bags", len(done)) as advance:
        for result in run_bags(task, missing, args.out, mapper) if missing else ():
            if result["error"]:
                failed += 1
                print(f"{visible(result['bag'])}: {visible(result['error'])}", file=sys.stderr)
            advance(1)
    table = collect(args.out)
    bad = f", {failed} with an error (see the column `error`)" if failed else ""
    print(f"{table}: {len(done) + len(missing)} bags, {len(missing)} now{bad}")
    return 1 if failed and failed == len(missing) and not done else 0

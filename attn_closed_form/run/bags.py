"""A folder of bags explained one by one, over any mapper of the corpus mode.

Every bag gets the files that were asked for (`show/exports.py`), then one row in `OUT/rows/NAME.json`, which says
that it is done; `collect` puts the rows together in `OUT/bags.csv`. A run that was interrupted goes on with the bags
that have no row. A bag that cannot be explained has its reason in the column `error`, and is tried again by the next
run. The folder remembers model and settings in `OUT/bags.json`, and refuses others.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from ..explanations.explain import explain
from ..explanations.explanation import Explanations
from ..explanations.methods import as_methods
from ..explanations.settings import Settings
from ..files.atomic import replacing
from ..files.bags import SUFFIXES, load_bag
from ..models.bag_classifier import BagClassifier
from ..show.exports import KINDS, row
from .mappers import Death, Mapper, Result, Tick, here

MANIFEST = "bags.json"
TABLE = "bags.csv"
ROWS = "rows"
COLUMNS = (
    "bag",
    "instances",
    "output",
    "prediction",
    "probability",
    "empty_bag",
    "method",
    "error_bound",
    "attention_against",
    "rank_correlation",
    "error",
)


@dataclass(frozen=True)
class BagTask:
    """What is asked of every bag.

    Attributes
    ----------
    model : path of the weights
    layout, outputs, options : as in `BagClassifier.from_state_dict`; options as JSON
    methods : the first signed one, Shapley values if there, is what maps show
    settings : as in `explain`
    region : side of square regions in the unit of the coordinates, for players="regions"; None for the default
    files : kinds of files to write for each bag, names of `show.exports.KINDS`
    """

    model: str
    layout: str = "auto"
    outputs: tuple[str, ...] = ()
    options: str = "{}"
    methods: tuple[str, ...] = ("shapley",)
    settings: Settings = field(default_factory=Settings)
    region: float | None = None
    files: tuple[str, ...] = ("csv", "map")

    def __post_init__(self) -> None:
        object.__setattr__(self, "methods", tuple(method.name for method in as_methods(self.methods)))
        for name in self.files:
            if name not in KINDS:
                raise ValueError(f"files: expected kinds among {', '.join(KINDS)}, got {name!r}")


def explain_bag(task: BagTask, path: str | os.PathLike[str]) -> Explanations:
    """Read one bag and explain it."""
    bag = load_bag(path)
    if task.region is not None:
        bag = bag.in_regions(task.region)
    return explain(load_model(task), bag, task.methods, **asdict(task.settings))


def load_model(task: BagTask) -> BagClassifier:
    """The model of a task, read once per process."""
    return _model(task.model, task.layout, task.outputs, task.options)


@lru_cache(maxsize=2)
def _model(path: str, layout: str, outputs: tuple[str, ...], options: str) -> BagClassifier:
    return BagClassifier.from_state_dict(path, layout, outputs or None, **json.loads(options))


def explain_bag_file(task: BagTask, path: str, folder: str) -> dict[str, Any]:
    """Explain one bag, write its files, and last its row, which is returned."""
    name, target = Path(path).stem, Path(folder)
    try:
        found = explain_bag(task, path)
        for kind in task.files:
            KINDS[kind].write(found, target / f"{name}{KINDS[kind].suffix}", None)
        result = {"bag": name, **row(found), "error": None}
    except (OSError, ValueError, MemoryError) as error:
        result = {"bag": name, "error": str(error) or type(error).__name__}
    return _write_row(folder, result)


def _write_row(folder: str, result: dict[str, Any]) -> dict[str, Any]:
    with replacing(Path(folder) / ROWS / f"{result['bag']}.json") as partial_file:
        partial_file.write_text(json.dumps(result), encoding="utf-8")
    return result


def plan_bags(
    source: str | os.PathLike[str], folder: str | os.PathLike[str], task: BagTask
) -> tuple[list[str], list[str]]:
    """Files of a folder of bags: those still to do (or to try again), and those that are done.

    Raises
    ------
    FileNotFoundError, ValueError
        no bags there, two of one name, or a folder that holds the results of something else
    """
    files = sorted(path for path in Path(source).iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())
    if not files:
        raise FileNotFoundError(f"{source}: expected bags in files ending in {', '.join(SUFFIXES)}, found none")
    names = [path.stem for path in files]
    for i, name in enumerate(names):
        if name in names[:i]:
            twin = files[names.index(name)].name
            raise ValueError(f"{source}: expected one file per bag, got {twin} and {files[i].name}")
    load_model(task)  # a model that cannot be read is an error of the run, not of every bag
    target = Path(folder)
    (target / ROWS).mkdir(parents=True, exist_ok=True)
    _check_manifest(target, task)
    done = [str(path.resolve()) for path in files if _finished(target / ROWS / f"{path.stem}.json")]
    return [str(path.resolve()) for path in files if str(path.resolve()) not in set(done)], done


def _finished(path: Path) -> bool:
    try:
        return json.loads(path.read_text(encoding="utf-8"))["error"] is None
    except (OSError, ValueError, KeyError):
        return False


def _check_manifest(folder: Path, task: BagTask) -> None:
    wanted = json.loads(json.dumps(asdict(task)))
    wanted["model"] = hashlib.sha256(Path(task.model).read_bytes()).hexdigest()
    path = folder / MANIFEST
    if path.exists():
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            kept = {}
        changed = [name for name in wanted if kept.get(name) != wanted[name]]
        if changed:
            raise ValueError(f"{folder}: holds results of another run, with another {', '.join(changed)}")
    path.write_text(json.dumps(wanted, indent=1), encoding="utf-8")


def run_bags(
    task: BagTask, files: Sequence[str], folder: str | os.PathLike[str], mapper: Mapper = here
) -> Iterator[dict[str, Any]]:
    """Explain bags, yielding the row of each as it is finished; over another mapper than `here` in any order."""
    target = str(Path(folder).resolve())
    for news in mapper(partial(_explain, task, target), files, partial(_give_up, target)):
        if news.finished is not None:
            yield news.finished[1]


def _explain(task: BagTask, folder: str, path: str, tick: Tick) -> dict[str, Any]:
    return explain_bag_file(task, path, folder)


def _give_up(folder: str, path: str, death: Death) -> Result:
    """A bag that has killed several workers is a row with an error."""
    name = Path(path).stem
    return Result(_write_row(folder, {"bag": name, "error": f"{death.deaths} processes ended at it ({death.reason})"}))


def collect(folder: str | os.PathLike[str]) -> Path:
    """Write `bags.csv`, one row per bag in the order of their names, from the rows that are there."""
    target = Path(folder)
    rows = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((target / ROWS).glob("[!.]*.json"))]
    with replacing(target / TABLE) as partial_file, partial_file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return target / TABLE

"""`explain_table`: explanations of every row of a table in memory or in a file, as one table."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..._arrays import check, choice
from ..explanations.settings import Settings
from ..models.protocol import Model
from .plan import planned
from .runner import run
from .task import Task, pyarrow
from .writers import result_tables, write_results


def explain_table(
    model: Model | str | None,
    table: Any,
    out: str | os.PathLike[str] | None = None,
    *,
    column: str = "text",
    methods: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    form: str = "long",
    separator: str = ",",
    workers: int = 1,
    **settings: Any,
) -> Any:
    """Explain every row of a table.

    A script may call it at its top level with several workers, because workers do not import the
    script. For runs that resume after an interruption, use `attn-closed-form corpus run`.

    Parameters
    ----------
    model : a model, the path of a model file, or None for the shipped model
    table : a table of any format that `corpus run` reads (a path), a pandas DataFrame or Series, an
        Arrow table, a dict of columns, or a list of inputs
    out : a file to write, ending in .parquet, .csv, .xlsx or .jsonl; or None to return the table
    column : the column of inputs
    methods : one name or several, see `METHODS`; by default Shapley values, which are sampled with
        standard errors where no exact ones exist, such as for the probability of one among eight
        classes
    columns : the columns of the table to keep; None keeps all but the inputs
    form : "long", one row per input and word, or "wide", one row per input with lists
    separator : separator of CSV
    workers : number of processes
    **settings : as in `explain`

    Returns
    -------
    The results as an Arrow table, or as a DataFrame if `table` is a DataFrame or a Series; None if
    they were written to a file

    Raises
    ------
    RunError : if a column of the table has the name of a column of the results
    ValueError : if the table has no such column, or a setting has a wrong value

    Examples
    --------
    >>> from attn_closed_form import load_demo_model
    >>> results = explain_table(load_demo_model(), ["A wonderful film.", "Dull."], scale="logit")
    >>> results.select(["row", "word", "output"]).to_pylist()[1]
    {'row': 0, 'word': 'wonderful', 'output': 'positive'}
    >>> [round(value, 2) for value in results["shapley"].to_pylist()]
    [0.0, 2.12, 0.0, 2.83]
    """
    if out is not None:
        _check_target(out, model, table)
    if isinstance(methods, str):
        methods = (methods,)
    if columns is not None:
        columns = tuple(columns)
    task = Task(
        column=column,
        model=model,
        settings=Settings.from_options(settings),
        columns=columns,
    ).settled(methods)
    # A pandas Series is a frame of one column.
    if hasattr(table, "to_frame"):
        table = table.to_frame(column)
    # A table in memory takes the way of a file, so that both have the same results.
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "out"
        if isinstance(table, str | os.PathLike):
            source = Path(table)
        else:
            source = Path(work) / "in.parquet"
            pyarrow().parquet.write_table(_arrow_table(table, column), source)
        with planned(source, folder, task, workers=workers) as plan:
            for _ in run(task, plan.missing, workers):
                pass
        if out is not None:
            return write_results(folder, out, form, separator)
        results = pyarrow().concat_tables(result_tables(folder, form))
    if _is_frame(table):
        return results.to_pandas()
    return results


def _check_target(out: str | os.PathLike[str], *sources: Any) -> None:
    """Raise if the file to write is a file to read."""
    for source in sources:
        is_file = isinstance(source, str | os.PathLike) and os.path.exists(source)
        if is_file and os.path.exists(out) and os.path.samefile(source, out):
            raise ValueError(f"out: expected a file other than the input and the model, got {out}")


def _is_frame(table: Any) -> bool:
    """Return whether a table is a pandas DataFrame, without importing pandas."""
    return hasattr(table, "iloc")


def _arrow_table(table: Any, column: str) -> Any:
    """Return a table in memory as an Arrow table, which must have the column of inputs."""
    pa = pyarrow()
    if _is_frame(table):
        arrow = pa.Table.from_pandas(table, preserve_index=False)
    elif isinstance(table, pa.Table | Mapping):
        arrow = pa.table(table)
    elif isinstance(table, Iterable):
        arrow = pa.table({column: list(table)})
    else:
        raise TypeError(
            "table: expected a path, a DataFrame or Series, an Arrow table, a dict of columns or a "
            f"list of inputs, got {type(table).__name__}"
        )
    check("table", bool(arrow.column_names), "a table with a column of inputs", "no columns")
    choice("column", column, arrow.column_names)
    return arrow

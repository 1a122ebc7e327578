"""The results of a run as an Excel workbook, for people who read it: a summary, the texts, and all
scores.

Sheets: `summary` has the words for and against each output with a bar chart, `texts` one row per
input with the text itself, and `explanations 1`, ... the table of scores. Every header is bold,
frozen and filtered, and probabilities have percent formats. A text is never a formula.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..explanations.methods import METHODS
from ..models.scale import ExplainedScale
from ..show.figures import AGAINST, FOR
from .examples import input_texts
from .long_form import methods_of
from .plan import read_manifest
from .summary import Summary, summarize
from .task import RunError
from .writers import plain_cell, result_tables, rows_of

# Excel's limit on the rows of a sheet.
SHEET_ROWS = 1_048_576
# Excel's limit on the characters of a cell.
CELL_CHARS = 32_767
# A change of a probability, with its sign.
PERCENT_CHANGE = "+0.0%;-0.0%;0.0%"
# A change of a logit or of another value.
CHANGE = "+0.0000;-0.0000;0"
# The columns of the summary, with their widths in characters.
SUMMARY_COLUMNS = {
    "output": 14,
    "word": 20,
    "effect": 10,
    "texts with the word": 20,
    "mean over all texts": 20,
    "± (95%), all texts": 20,
    "mean with the word": 20,
    "± (95%), with the word": 22,
    "row of the strongest example": 28,
}


def write_workbook(tables: Iterator[Any], path: Path, folder: Path) -> None:
    """Write the tables of a run, its texts and its summary as one workbook."""
    try:
        workbook = _Workbook()
    except ImportError:
        raise ImportError("Excel files need openpyxl: pip install '.[corpus]'") from None
    try:
        workbook.write_summary(summarize(folder))
        workbook.write_texts(folder)
        for table in tables:
            formats = ScoreFormats(table.column_names)
            for row in rows_of(table):
                workbook.append("explanations", row, table.column_names, formats.of_row(row))
        workbook.finish_sheet()
    except BaseException:
        workbook.discard()
        raise
    workbook.book.save(path)


class ScoreFormats:
    """The number formats of the columns of results, which depend on the scale of each row."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.scale = self.names.index("scale") if "scale" in self.names else None
        self.methods = methods_of(self.names)

    def of_row(self, row: Sequence[Any]) -> list[str | None]:
        """Return the format of each cell; None for a cell that is not a probability, a score or an
        error.
        """
        in_percent = self.scale is not None and row[self.scale] == "probability"
        return [self._of_column(name, in_percent) for name in self.names]

    def _of_column(self, name: str, in_percent: bool) -> str | None:
        """Return Excel's number format for the values of a column."""
        # The level of a probability.
        percent = "0.0%"
        if name == "probability" or name.startswith("probability_"):
            return percent
        if name == "prediction":
            return percent if in_percent else CHANGE
        # A guaranteed error.
        error = "0.0E+00"
        for method in self.methods:
            is_percent = in_percent and not METHODS[method].on_logits
            if name == method:
                return PERCENT_CHANGE if is_percent else CHANGE
            if name == f"{method}_baseline":
                return percent if is_percent else CHANGE
            if name.startswith(f"{method}_") and name.endswith("error"):
                return error
        return None


class _Workbook:
    """An Excel file that is written row by row; a full sheet is followed by another one."""

    def __init__(self) -> None:
        from openpyxl import Workbook
        from openpyxl.cell import WriteOnlyCell
        from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
        from openpyxl.styles import Font
        from openpyxl.utils import get_column_letter

        self.book = Workbook(write_only=True)
        self.new_cell = WriteOnlyCell
        self.illegal = ILLEGAL_CHARACTERS_RE
        self.bold = Font(bold=True)
        self.letter = get_column_letter
        self.sheet: Any = None
        self.columns = 0  # of the current sheet
        self.rows = 0  # of the current sheet
        self.numbers: dict[str, int] = {}  # sheets of each kind

    def begin_sheet(self, title: str, widths: Mapping[str, float]) -> None:
        """Begin a sheet with a bold and frozen header; its filter is set when it ends."""
        self.finish_sheet()
        self.sheet = self.book.create_sheet(title)
        self.sheet.freeze_panes = "A2"
        header = []
        for number, (name, width) in enumerate(widths.items(), 1):
            self.sheet.column_dimensions[self.letter(number)].width = width
            cell = self.cell(name)
            cell.font = self.bold
            header.append(cell)
        self.sheet.append(header)
        self.columns = len(header)
        self.rows = 1

    def finish_sheet(self) -> None:
        """Filter the columns of the current sheet."""
        if self.sheet is not None:
            self.sheet.auto_filter.ref = f"A1:{self.letter(max(1, self.columns))}{self.rows}"

    def append(
        self,
        kind: str,
        row: Sequence[Any],
        names: Sequence[str],
        formats: Sequence[str | None] = (),
        column: str | None = None,
    ) -> None:
        """Append a row to the last sheet of a kind, and begin another sheet if that one is full.

        `column` is the name of the column with the texts, which is wide.
        """
        if kind not in self.numbers or self.rows == SHEET_ROWS:
            self.numbers[kind] = self.numbers.get(kind, 0) + 1
            title = kind
            if kind == "explanations" or self.numbers[kind] > 1:
                title = f"{kind} {self.numbers[kind]}"
            # Tuning: the width of a column in characters: that of a text fits a sentence, that of a
            # number its name.
            wide = {name: 80 if name == column else max(12, len(name) + 4) for name in names}
            self.begin_sheet(title, wide)
        cells = [self.cell(value) for value in row]
        for number, name_of_format in enumerate(formats):
            if name_of_format is not None and isinstance(row[number], float):
                # A number needs a cell object to carry a format.
                cells[number] = self.new_cell(self.sheet, cells[number])
                cells[number].number_format = name_of_format
        self.sheet.append(cells)
        self.rows += 1

    def cell(self, value: Any) -> Any:
        """Return what openpyxl stores for a value; a text is never a formula."""
        value = plain_cell(value)
        if not isinstance(value, str):
            return value
        if len(value) > CELL_CHARS:
            raise RunError(
                f"Excel allows {CELL_CHARS:,} characters per cell, got {len(value):,}; use --form "
                "long or CSV"
            )
        cell = self.new_cell(self.sheet, self.illegal.sub("\ufffd", value))
        # openpyxl takes a text that begins with "=" for a formula unless its type is set.
        cell.data_type = "s"
        return cell

    def write_texts(self, folder: Path) -> None:
        """Write one row per input: its columns, its text, its prediction, and the reason if it has
        none.
        """
        texts = input_texts(folder)
        number, text = next(texts, (-1, None))
        manifest = read_manifest(folder)
        column = "text" if manifest is None else manifest["options"]["column"]
        for table in result_tables(folder, "wide"):
            lists = {"labels", "spans", *methods_of(table.column_names)}
            names = [name for name in table.column_names if name not in lists]
            shown = list(names)
            if number >= 0 and column not in names:
                shown.insert(1, column)
            of_columns = ScoreFormats(names)
            for row in rows_of(table.select(names)):
                cells = dict(zip(names, row, strict=True))
                formats = dict(zip(names, of_columns.of_row(row), strict=True))
                # The texts are read once, in order, next to the rows; -1 means that none is left.
                while 0 <= number < cells["row"]:
                    number, text = next(texts, (-1, None))
                if number == cells["row"]:
                    # A column of the results with this name has precedence over the text of the
                    # input.
                    cells.setdefault(column, _shortened(text))
                of_row = [formats.get(name) for name in shown]
                self.append("texts", [cells.get(name) for name in shown], shown, of_row, column)

    def write_summary(self, summary: Summary) -> None:
        """Write the words for and against each output, and a bar chart for each."""
        self.begin_sheet("summary", SUMMARY_COLUMNS)
        for output in summary.outputs:
            scale = summary.scale(output)
            first = self.rows + 1
            sides = summary.sides(output)
            for side, words in sides.items():
                effect = "raises" if side == "for" else "lowers"
                for word in words:
                    means = (word.overall, word.overall_half_width, word.mean, word.half_width)
                    row = [output, word.word, effect, word.documents, *means, word.example]
                    self.append_summary_row(row, scale)
            if self.rows >= first:
                title = f"Mean effect of words on {scale.of_output(output)}"
                self.add_chart(title, first, len(sides["for"]))

    def append_summary_row(self, row: Sequence[Any], scale: ExplainedScale) -> None:
        """Append the row of a word, with the format of its scale."""
        cells = [self.cell(value) for value in row]
        change = PERCENT_CHANGE if scale.in_percent else CHANGE
        for number, value in enumerate(row):
            if isinstance(value, float):
                cells[number] = self.new_cell(self.sheet, value)
                cells[number].number_format = (
                    # The columns 5 and 7 are half-widths of intervals, which have no sign.
                    change.replace("+", "") if number in (5, 7) else change
                )
        self.sheet.append(cells)
        self.rows += 1

    def add_chart(self, title: str, first: int, raising: int) -> None:
        """Add a bar chart of the rows from `first` to the last one; the first ones raise the
        output.
        """
        from openpyxl.chart import BarChart, Reference
        from openpyxl.chart.marker import DataPoint

        chart = BarChart()
        chart.type = "bar"
        chart.legend = None
        chart.title = title
        # Column 5 is the mean over all texts, which the next line names by the words in column 2.
        chart.add_data(Reference(self.sheet, min_col=5, min_row=first, max_row=self.rows))
        chart.set_categories(Reference(self.sheet, min_col=2, min_row=first, max_row=self.rows))
        chart.gapWidth = 30
        # The first word is at the top, and names are left of the longest bar against.
        chart.x_axis.scaling.orientation = "maxMin"
        chart.x_axis.tickLblPos = "low"
        # Without this, charts of recent versions of openpyxl have hidden axes.
        chart.x_axis.delete = False
        chart.y_axis.delete = False
        bars = self.rows - first + 1
        for number in range(bars):
            color = FOR if number < raising else AGAINST
            point = DataPoint(idx=number)
            point.graphicalProperties.solidFill = "{:02X}{:02X}{:02X}".format(*color)
            chart.series[0].dPt.append(point)
        # Centimeters: half of one per bar, and room for the title and the axis.
        chart.height = 3 + 0.5 * bars
        chart.width = 18
        self.sheet.add_chart(chart, f"K{first}")

    def discard(self) -> None:
        """Remove the temporary files of the sheets, which only saving does."""
        if self.sheet is not None:
            with suppress(Exception):  # the error that ends the writing is more useful
                self.book.save(io.BytesIO())


def _shortened(text: str | None) -> str | None:
    """Return a text that fits into a cell; the end of a longer one is left out."""
    if text is None or len(text) <= CELL_CHARS:
        return text
    note = " [… the rest does not fit into a cell]"
    return text[: CELL_CHARS - len(note)] + note

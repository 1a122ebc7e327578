"""Files that are whole or not there: write beside the place, then rename.

A process that is killed in the middle leaves the previous file as it was. Two processes that write the same file do
not disturb each other, because each has a partial file of its own; the last one to finish wins.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """Yield the path of a partial file, which takes the place of `path` when the block ends without an error.

    The partial file lies in the same folder and ends like `path`, because writers look at the ending. With `folder`,
    which must be on the same file system, it lies there and ends in ".partial", because readers look at it as well.

    Raises
    ------
    FileNotFoundError
        the folder does not exist

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(f"{folder}/a.txt") as partial:
    ...         _ = partial.write_text("whole")
    ...     [(file.name, file.read_text()) for file in Path(folder).iterdir()]
    [('a.txt', 'whole')]
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: expected a file name in an existing folder, but {path.parent} is none")
    unique = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
    partial = path.with_name(f".{path.stem}.{unique}.partial{path.suffix}")
    if folder is not None:
        partial = Path(folder) / f"{path.name}.{unique}.partial"
    try:
        yield partial
        with partial.open("rb") as stream:
            os.fsync(stream.fileno())  # or a crash of the machine could leave the new name with the old contents gone
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)

"""Safe reading and writing: only regular files are read, errors name the file in one line, and
writes are atomic.

A process that is killed while it writes leaves the previous file unchanged. Two processes that
write the same file do not interfere, because each writes a separate partial file; the last one to
finish wins.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Limit on the contents of any file, in bytes; a larger file may have a multiple of its size.
ALWAYS_ALLOWED = 2**28


def regular_file(path: str | os.PathLike[str], expected: str = "") -> Path:
    """Return the path of a regular file, or raise an error for a pipe or a device, which may have
    no end.
    """
    path = Path(path)
    if not path.is_file():
        if path.is_dir():
            problem = "is a folder"
        elif path.exists():
            problem = "is not a regular file"
        else:
            problem = "no such file"
        if expected:
            problem += f"; expected {expected}"
        raise FileNotFoundError(f"{path}: {problem}")
    return path


def check_size(needed: int, path: Path) -> None:
    """Reject a small file that would fill the memory, by compressed data or by a false claim about
    its size.
    """
    # Tuning: the factor by which the contents of a compressed file may be larger than the file.
    expansion = 100
    if needed > max(ALWAYS_ALLOWED, expansion * path.stat().st_size):
        raise ValueError(
            f"its contents would take {needed:,} bytes, more than {expansion} times the file"
        )


@contextmanager
def reading(path: str | os.PathLike[str], kind: str) -> Iterator[None]:
    """Turn any error about a damaged or hostile file into a one-line ValueError that names the
    file.
    """
    try:
        yield
    except Exception as error:  # libraries raise errors of many kinds
        line = first_line(error)
        # An error that names the file comes from an inner reader, and is complete.
        if line.startswith(str(path)):
            raise
        raise ValueError(f"{path}: expected a readable {kind} file: {line}") from None


def first_line(error: BaseException) -> str:
    """Return the first line of an error, or its type; only texts are printed, because objects may
    be huge.
    """
    texts = [text for text in error.args if type(text) is str and text.strip()]
    if not texts:
        return type(error).__name__
    return texts[-1].strip().splitlines()[0][:400]


@contextmanager
def replacing(
    path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None
) -> Iterator[Path]:
    """Yield the path of a partial file, which replaces `path` when the block ends without an error.

    The partial file is in the same folder and has the suffix of `path`, because writers depend on
    the suffix. With `folder`, which must be on the same file system, it is there and ends in
    ".partial", so that readers of the folder ignore it. The target of a symbolic link is replaced,
    not the link.
    """
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"{path}: expected a file name in an existing folder, but {path.parent} is not one"
        )
    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: expected the name of a file to write, got a folder or a device")
    # The number of the process alone would not tell two threads apart.
    unique = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
    stem = path.stem[:40]  # systems limit the length of names
    partial = path.with_name(f".{stem}.{unique}.partial{path.suffix}")
    if folder is not None:
        partial = Path(folder) / f"{stem}.{unique}.partial"
    try:
        yield partial
        # Windows can only flush a file that is open for writing.
        with partial.open("r+b") as stream:
            # Otherwise a crash of the machine could lose both the old and the new contents.
            os.fsync(stream.fileno())
        os.replace(partial, path)
    finally:
        # After an error the partial file is still there.
        partial.unlink(missing_ok=True)

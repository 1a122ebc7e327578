"""Worker processes that use one core each, leave with the process that started them, and say how they ended.

Workers are fresh processes ("spawn"), because a fork of a process that has threads may hang. Two things watch the
parent: on Linux the kernel kills the worker when the thread that started it is gone, and everywhere a thread of the
worker waits for the end of a pipe that only the parent holds open. So a parent that is killed leaves nothing behind,
and it does not matter by which signal.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import Any

# Numerical libraries in a worker get one thread each, since the processes are the parallelism.
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_PR_SET_PDEATHSIG = 1


def start(target: Any, *args: Any) -> BaseProcess:
    """Start `target(*args)` in a fresh process with one numerical thread. `target` calls `settle` first."""
    with _single_threaded():
        process = get_context("spawn").Process(target=target, args=args, daemon=True)
        process.start()
    return process


@contextmanager
def _single_threaded() -> Iterator[None]:
    """The environment that a new process inherits."""
    kept = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def settle() -> None:
    """Called by a worker first: leave when the parent does, and leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = parent_process()
    if parent is None:
        return
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent.pid:  # it went before the kernel was told
            os._exit(1)

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="watches the parent").start()


def how_it_ended(status: int | None) -> str:
    """What an exit status says, in words.

    >>> how_it_ended(3), how_it_ended(-15)
    ('ended with status 3', 'killed by SIGTERM')
    >>> how_it_ended(-9)
    'killed by SIGKILL, as the system does when memory runs out'
    """
    if status is None or status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"killed by {name}" + (", as the system does when memory runs out" if name == "SIGKILL" else "")

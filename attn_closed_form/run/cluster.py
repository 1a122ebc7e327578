"""A mapper over a Dask cluster, which may grow, shrink, lose workers, and lose its scheduler.

Parts are handed out a few thousand at a time, so a corpus of a million parts never becomes a million futures, and an
adaptive cluster sees enough waiting work to grow. Dask repeats a part whose worker is lost. A part that has cost
several workers their lives (`distributed.scheduler.allowed-failures`) becomes rows with an error. When the scheduler
is lost the run ends within seconds; what is on disk stays, and the same command goes on.

Every machine must see the same paths, and have the same version of this package, which is checked before anything
starts and again with every part, since workers may join later.
"""

from __future__ import annotations

import logging
import platform
import queue
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from .. import __version__
from .mappers import POLL, Death, Function, GiveUp, News
from .task import CorpusError

AHEAD = 4  # parts per thread of the cluster that are handed out at a time
LEAST_AHEAD = 1_000  # of them at least, so that an adaptive cluster grows
ALLOWED = 3  # workers that a part may cost, Dask's default
GROWTH_SECONDS = 5.0  # between two looks at the size of the cluster


@dataclass(frozen=True)
class Cluster:
    """A mapper over the workers of a Dask scheduler.

    Parameters
    ----------
    address : such as "tcp://127.0.0.1:8786"
    timeout : seconds to wait for a scheduler

    Raises
    ------
    CorpusError
        no scheduler there, workers with another version of this package, or a scheduler that is lost on the way
    """

    address: str
    timeout: float = 10.0

    def __call__(self, function: Function, items: Iterable[Any], give_up: GiveUp) -> Iterator[News]:
        """Apply the function; items are finished in any order."""
        with _client(self.address, self.timeout) as client:
            yield News(note=_check_versions(client, self.address))
            yield from _mapped(client, self.address, function, items, give_up)


def _mapped(client: Any, address: str, function: Function, items: Iterable[Any], give_up: GiveUp) -> Iterator[News]:
    from distributed import KilledWorker

    news: queue.SimpleQueue[Any] = queue.SimpleQueue()
    running: dict[str, tuple[Any, Any]] = {}  # futures must be kept, or their work is dropped
    waiting = iter(items)
    lost = 0
    ahead, looked = LEAST_AHEAD, time.monotonic()
    while True:
        for item in islice(waiting, ahead - len(running)):
            future = client.submit(_call, function, item, pure=False)
            running[future.key] = (future, item)
            future.add_done_callback(news.put)
        if not running:
            return
        finished, note = None, ""
        with suppress(queue.Empty):
            future = news.get(timeout=POLL)
            _, item = running.pop(future.key)
            try:
                finished = item, _result(client, address, future)
            except KilledWorker as error:
                lost, note = lost + 1, str(error).splitlines()[0]
                decided = give_up(item, Death(ALLOWED + 1, None, "workers of the cluster were lost"))
                finished = item, decided.value
        if client.status != "running":
            raise _scheduler_lost(address)
        if time.monotonic() - looked > GROWTH_SECONDS:
            with suppress(Exception):  # a scheduler that is lost is noticed above
                ahead = max(LEAST_AHEAD, AHEAD * _threads(client))
            looked = time.monotonic()
        yield News(finished, lost=lost, note=note)


def _call(function: Function, item: Any) -> Any:
    return function(item, lambda done, failed: None)


def _result(client: Any, address: str, future: Any) -> Any:
    from distributed import KilledWorker

    try:
        return future.result(timeout=GROWTH_SECONDS)
    except KilledWorker:
        raise
    except Exception as error:
        if future.status != "error" and (future.cancelled() or _is_lost(client, address)):
            raise _scheduler_lost(address) from None
        raise CorpusError(f"a worker of {address} failed: {type(error).__name__}: {error}") from None


def _is_lost(client: Any, address: str) -> bool:
    """Whether the scheduler is gone; a broken connection can be seen before the client itself notices."""
    end = time.monotonic() + GROWTH_SECONDS
    while client.status == "running" and time.monotonic() < end:
        try:
            _knock(address, GROWTH_SECONDS)
        except CorpusError:
            return True
        time.sleep(POLL)
    return bool(client.status != "running")


def _scheduler_lost(address: str) -> CorpusError:
    return CorpusError(f"scheduler {address}: lost on the way")


@contextmanager
def _client(address: str, timeout: float) -> Iterator[Any]:
    """A client whose complaints are ours to word, and that does not hold up the end."""
    try:
        from distributed import Client
    except ImportError:
        raise ImportError("a Dask cluster needs distributed: pip install 'attn-closed-form[corpus]'") from None
    _knock(address, timeout)
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        try:
            client = Client(address, timeout=timeout, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise CorpusError(f"scheduler {address}: no answer ({type(error).__name__}: {error})") from None
        try:
            yield client
        finally:
            with suppress(Exception):
                client.close(timeout=1)
    finally:
        logger.setLevel(level)


def _knock(address: str, timeout: float) -> None:
    """Whether anybody listens, before a client is made that takes long to give up."""
    host, _, port = address.partition("://")[2].rpartition(":")
    if not host or not port.isdigit():
        raise CorpusError(f"scheduler {address}: expected an address such as tcp://10.0.0.5:8786")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout).close()
    except OSError as error:
        raise CorpusError(f"scheduler {address}: no answer ({error.strerror or error})") from None


def _versions() -> dict[str, str]:
    """What must be the same on client and workers, and what should."""
    return {"attn-closed-form": __version__, "numpy": np.__version__, "python": platform.python_version()}


def _check_versions(client: Any, address: str) -> str:
    """Another version of this package is an error, another one of NumPy or Python worth a line."""
    if not _threads(client):
        return f"scheduler {address}: no workers yet; waiting for them"
    try:
        found = client.run(_versions, on_error="return")
    except Exception as error:
        raise CorpusError(f"scheduler {address}: workers do not answer ({type(error).__name__}: {error})") from None
    own, odd = _versions(), []
    for worker, theirs in found.items():
        if not isinstance(theirs, dict):
            raise CorpusError(f"worker {worker}: cannot use attn-closed-form ({type(theirs).__name__}: {theirs})")
        if theirs["attn-closed-form"] != __version__:
            raise CorpusError(
                f"worker {worker}: has attn-closed-form {theirs['attn-closed-form']}, this client {__version__}; "
                "install the same version on every machine"
            )
        odd += [f"{name} {theirs[name]} (here {own[name]})" for name in own if theirs[name] != own[name]]
    return f"some workers have {', '.join(sorted(set(odd)))}; last digits may differ" if odd else ""


def _threads(client: Any) -> int:
    return sum(client.nthreads().values())

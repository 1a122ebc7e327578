"""Run the page with uvicorn: bind first, so that a taken port is known before anything starts; end on Ctrl-C.

The listening socket belongs to this process, which computes nothing, and so outlives every worker. SIGTERM and Ctrl-C
let answers under way finish for GRACE seconds; SIGHUP replaces the workers one by one, with the model file as it is
now, while requests go on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from .app import Limits, make_app
from .computing import Computer, InThreads
from .guard import is_loopback
from .models import Source, open_models
from .workers import InProcesses

# Seconds that answers under way get after Ctrl-C.
GRACE = 2


def serve(
    source: Source = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 0,
    limits: Limits | None = None,
) -> int:
    """Serve until interrupted; returns the exit status.

    Parameters
    ----------
    source : a model, the file of one, a folder of such files, or None for the shipped one; the page shows names of
        files, never where they lie
    host, port : where to listen; port 0 takes any free one
    workers : processes that compute; 0 computes in threads of this process
    limits : on queue and time

    Raises
    ------
    OSError
        if the address cannot be had, in one readable line
    """
    models = open_models(source)  # also where processes open them: what is wrong is said before anything starts
    name = next(iter(models)) if len(models) == 1 else f"{len(models)} models"
    computer: Computer = InProcesses(source, None, workers) if workers else InThreads(models)
    with listen(host, port) as sock:
        address = sock.getsockname()
        loopback = is_loopback(address[0])
        app = make_app(computer, name, loopback, limits)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,  # the texts of a person are nobody else's business, not even as a line in a log
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=GRACE,
        )
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]
        print(f"explaining with {name}: http://{shown}:{address[1]}/   (Ctrl-C ends)", flush=True)
        if not loopback:
            print("warning: reachable from other machines; anyone there can ask for explanations", file=sys.stderr)
        with _restartable(computer), contextlib.suppress(KeyboardInterrupt):
            # uvicorn repeats the signal after it has shut down; where a parent ignores it, nothing is raised.
            uvicorn.Server(config).run(sockets=[sock])
        print("ended", file=sys.stderr)
    return 0


@contextmanager
def _restartable(computer: Computer) -> Iterator[None]:
    """SIGHUP replaces the workers, where there are workers and such a signal."""
    if not isinstance(computer, InProcesses) or not hasattr(signal, "SIGHUP"):
        yield
        return

    def restart(*_: object) -> None:
        threading.Thread(target=computer.restart, daemon=True).start()

    try:
        before = signal.signal(signal.SIGHUP, restart)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket.

    >>> with listen("127.0.0.1", 0) as sock:
    ...     sock.getsockname()[0]
    '127.0.0.1'
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError):
        raise OSError(f"--host: expected an address of this machine, got {host!r}") from None
    sock = socket.socket(family, kind, protocol)
    try:
        # A server that has just ended leaves its port in TIME_WAIT; one that still listens keeps it all the same.
        # Not on Windows, where this option means something else.
        if os.name == "posix":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(128)
    except OSError as error:
        sock.close()
        raise OSError(f"cannot listen on {host} port {port}: {error.strerror}; choose another with --port") from None
    return sock

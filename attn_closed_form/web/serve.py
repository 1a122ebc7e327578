"""Run the page with uvicorn, in one process or in several of uvicorn's own workers.

Workers get what to serve by the environment variable OPTIONS, because each of them opens the model itself.
"""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
import signal
import socket
import sys
import threading
import time
from functools import cache
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from ..files.open_model import open_model
from ..models.protocol import Model
from .app import LOOPBACK, Limits, make_app

OPTIONS = "ATTN_CLOSED_FORM_SERVE"
SHIPPED = "the shipped sentiment model"
REVIEW = "The plot is a mess and the ending is terrible, but the acting is wonderful and I never once felt bored!"
GRACE = 2  # seconds for answers that are being computed when the server ends
SHORTEST_TOKEN = 16


def serve(
    path: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    token: str | None = None,
    limits: Limits | None = None,
) -> int:
    """Serve until interrupted; returns the exit status.

    Parameters
    ----------
    path : a model file, or None for the shipped model; the page shows the name of the file, never its folder
    host, port : where to listen; port 0 takes any free one
    workers : processes; uvicorn replaces those that die
    token : secret that requests must carry; required unless `host` is a loopback address
    limits : on number and time, per worker

    Raises
    ------
    OSError
        if the address is not available
    ValueError
        if the token is missing or too weak, or the file has no model of texts
    """
    address, port = free_address(host, port)
    loopback = ipaddress.ip_address(address).is_loopback
    check_token(host, token, loopback)
    limits = limits or Limits()
    hosts = (*LOOPBACK, host, f"[{address}]" if ":" in address else address) if loopback else ("*",)
    name = SHIPPED if path is None else Path(path).name
    options = {"path": path, "name": name, "hosts": hosts, "token": token, "queue": limits.queue}
    os.environ[OPTIONS] = json.dumps(options | {"seconds": limits.seconds, "body_seconds": limits.body_seconds})
    application()  # an error in the model is reported before anything starts
    if workers > 1:  # the processes are the parallelism
        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
            os.environ.setdefault(variable, "1")
    shown = f"http://[{address}]:{port}/" if ":" in address else f"http://{address}:{port}/"
    hint = "" if token is None else "; open it with ?token=... once"
    line = f"explaining with {name}: {shown}   (Ctrl-C ends{hint})"
    threading.Thread(target=_announce, args=(address, port, line), daemon=True).start()
    uvicorn.run(
        f"{__name__}:application",
        factory=True,
        host=address,
        port=port,
        workers=workers,
        log_level="warning",
        access_log=False,  # nothing that a person writes goes into a log
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=GRACE,
    )
    print("ended", file=sys.stderr)
    return 0


def application() -> ASGIApp:
    """The application that the environment variable OPTIONS describes; each worker calls this once."""
    options: dict[str, Any] = json.loads(os.environ[OPTIONS])
    parent = parent_process()
    if parent is not None:  # a worker of a server that is killed must not go on alone
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    return make_app(
        _model(options["path"]),
        options["name"],
        tuple(options["hosts"]),
        options["token"],
        Limits(options["queue"], options["seconds"], options["body_seconds"]),
        REVIEW if options["path"] is None else None,
    )


@cache
def _model(path: str | None) -> Model:
    return open_model(path)


def _end_with(parent: Any) -> None:
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _announce(address: str, port: int, line: str) -> None:
    """Print the line once the server accepts connections."""
    nearest = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)
    while True:
        try:
            socket.create_connection((nearest, port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            print(line, flush=True)
            return


def check_token(host: str, token: str | None, loopback: bool) -> None:
    """A token that is missing or weak is an error.

    >>> check_token("127.0.0.1", None, loopback=True)
    """
    if token is None:
        if loopback:
            return
        got = "none"
    elif len(token) < SHORTEST_TOKEN or not all(c.isascii() and (c.isalnum() or c in "-_") for c in token):
        got = f"{len(token)} characters"
    else:
        return
    raise ValueError(
        f"--token: expected at least {SHORTEST_TOKEN} letters, digits, - or _ for --host {host}, got {got}; "
        f"for example {secrets.token_urlsafe(24)}"
    )


def free_address(host: str, port: int) -> tuple[str, int]:
    """The numerical address of a host and a port on which nobody listens; port 0 becomes a free one.

    >>> free_address("127.0.0.1", 0)[0]
    '127.0.0.1'
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError):
        raise OSError(f"--host: expected an address of this machine, got {host!r}") from None
    with socket.socket(family, kind, protocol) as sock:
        try:
            # A server that has just ended leaves its port in TIME_WAIT. On Windows this option means something else.
            if os.name == "posix":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            sock.listen(1)
        except OSError as error:
            raise OSError(f"cannot listen on {host} port {port}: {error.strerror}; choose another --port") from None
        return sock.getsockname()[:2]

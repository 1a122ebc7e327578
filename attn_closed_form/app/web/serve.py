"""Run the page with uvicorn, in one process or in several workers.

Workers get their options from the environment variable OPTIONS, because each of them opens the model itself.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import secrets
import signal
import socket
import sys
import threading
import time
from dataclasses import asdict
from functools import cache
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from ..files.open_model import open_model
from .app import LOOPBACK, Limits, make_app

OPTIONS = "ATTN_CLOSED_FORM_SERVE"
SHIPPED = "the shipped sentiment model"
REVIEW = "The plot is a mess and the ending is terrible, but the acting is wonderful and I never once felt bored!"
GRACE = 2  # seconds for answers that are being computed when the server stops


def serve(
    path: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    token: str | None = None,
    limits: Limits | None = None,
) -> int:
    """Serve until interrupted, and return the exit status.

    Parameters
    ----------
    path : a model file, or None for the shipped model; the page shows the name of the file, never its folder
    host, port : address to listen on; port 0 selects a free port
    workers : number of processes; uvicorn replaces those that die
    token : secret that requests must carry; required unless `host` is a loopback address
    limits : limits on number and time, per worker
    """
    address, port = free_address(host, port)
    loopback = ipaddress.ip_address(address).is_loopback
    if (token is not None or not loopback) and not re.fullmatch(r"[A-Za-z0-9_-]{16,}", token or ""):
        raise ValueError(
            f"--token: expected at least 16 letters, digits, - or _ for --host {host}, got "
            f"{'none' if token is None else f'{len(token)} characters'}; for example {secrets.token_urlsafe(24)}"
        )
    name = SHIPPED if path is None else Path(path).name
    shown = f"[{address}]" if ":" in address else address
    hosts = (*LOOPBACK, host, shown) if loopback else ("*",)
    options = {
        "path": path,
        "name": name,
        "hosts": hosts,
        "token": token,
        "limits": asdict(limits or Limits()),
    }
    os.environ[OPTIONS] = json.dumps(options)
    application()  # an error in the model is reported before anything starts
    if workers > 1:  # the processes provide the parallelism
        for library in ("OPENBLAS", "OMP", "MKL"):
            os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    hint = "" if token is None else "; open it with ?token=... once"
    line = f"explaining with {name}: http://{shown}:{port}/   (Ctrl-C stops the server{hint})"
    threading.Thread(target=_announce, args=(address, port, line), daemon=True).start()
    uvicorn.run(
        f"{__name__}:application",
        factory=True,
        host=address,
        port=port,
        workers=workers,
        log_level="warning",
        access_log=False,  # texts of users are never logged
        server_header=False,
        proxy_headers=False,
        ws="none",
        http="h11",  # limits the headers of a request to 16 KB, unlike the faster parsers
        timeout_graceful_shutdown=GRACE,
    )
    print("ended", file=sys.stderr)
    return 0


def application() -> ASGIApp:
    """Build the application described by the environment variable OPTIONS; each worker calls this once."""
    options: dict[str, Any] = json.loads(os.environ[OPTIONS])
    path = options["path"]
    limits = Limits(**options["limits"])
    parent = parent_process()
    if parent is not None:  # the workers of a killed server must not keep running
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    example = REVIEW if path is None else None
    return make_app(
        _model(path), options["name"], tuple(options["hosts"]), options["token"], limits, example
    )


_model = cache(open_model)


def _end_with(parent: Any) -> None:
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _announce(address: str, port: int, line: str) -> None:
    """Print the line once the server accepts connections."""
    nearest = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)
    while True:
        try:
            socket.create_connection((nearest, port), timeout=1).close()
            return print(line, flush=True)
        except OSError:
            time.sleep(0.02)


def free_address(host: str, port: int) -> tuple[str, int]:
    """Return the numerical address of a host and an unused port; port 0 becomes a free one.

    >>> free_address("127.0.0.1", 0)[0]
    '127.0.0.1'
    """
    try:
        resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
    except (socket.gaierror, UnicodeError):
        raise OSError(f"--host: expected an address of this machine, got {host!r}") from None
    with socket.socket(*resolved[:3]) as sock:
        try:
            # A server that has just stopped leaves its port in TIME_WAIT. On Windows this option has another meaning.
            if os.name == "posix":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(resolved[4])
            sock.listen(1)
        except OSError as error:
            raise OSError(
                f"cannot listen on {host} port {port}: {error.strerror}; choose another --port"
            ) from None
        address, number = sock.getsockname()[:2]
        return str(address), int(number)

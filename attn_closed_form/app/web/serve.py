"""Run the page with uvicorn, in one process, for the person who sits at this machine."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

import uvicorn

from ..files.open_model import open_model
from .app import LOOPBACK, TIME_LIMIT, make_app

ADDRESS = "127.0.0.1"  # the address that only programs on this machine can reach
# The text that the page shows first with the shipped model: it has evidence for both classes.
REVIEW = (
    "The plot is a mess and the ending is terrible, but the acting is wonderful and I never once "
    "felt bored!"
)


def serve(path: str | None = None, port: int = 8000, seconds: float = TIME_LIMIT) -> int:
    """Serve until interrupted, and return the exit status.

    Parameters
    ----------
    path : a model file, or None for the shipped model; the page shows the name of the file, never
        its folder
    port : the port to listen on; 0 selects a free one
    seconds : time limit of an answer

    Raises
    ------
    OSError : if the port is taken
    ValueError : if the model does not read texts
    """
    if path is None:
        shipped = "the shipped sentiment model"
        name = shipped
        example = REVIEW
    else:
        name = Path(path).name
        example = None
    app = make_app(open_model(path), name, hosts=LOOPBACK, seconds=seconds, example=example)
    # Tuning: a browser opens at most six connections to one server; the others are for scripts.
    connections = 64
    grace = 2  # seconds for answers that are being computed when the server stops
    config = uvicorn.Config(
        app,
        # uvicorn's own configuration would close the handlers of every other library in this
        # process, and with them the streams that they write to. Its warnings reach standard error
        # without it.
        log_config=None,
        log_level="warning",
        # Texts of users are never logged.
        access_log=False,
        server_header=False,
        # No proxy is in front, so headers that claim one would be forged.
        proxy_headers=False,
        ws="none",
        # Limits the headers of a request to 16 KB, unlike the faster parsers.
        http="h11",
        limit_concurrency=connections,
        timeout_graceful_shutdown=grace,
    )
    with listening(port) as sock:
        number = sock.getsockname()[1]
        line = f"explaining with {name}: http://{ADDRESS}:{number}/   (Ctrl-C stops the server)"
        with suppress(KeyboardInterrupt):  # uvicorn raises it again when everything has ended
            Announcing(config, line).run(sockets=[sock])
    print("ended", file=sys.stderr)
    return 0


class Announcing(uvicorn.Server):
    """A server that prints a line once it accepts connections."""

    def __init__(self, config: uvicorn.Config, line: str) -> None:
        super().__init__(config)
        self.line = line

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and print the line."""
        await super().startup(sockets)
        print(self.line, flush=True)


def listening(port: int) -> socket.socket:
    """Return a socket that is bound to a port of this machine; port 0 becomes a free one.

    >>> with listening(0) as sock:
    ...     sock.getsockname()[0]
    '127.0.0.1'
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # A server that has just stopped leaves its port in TIME_WAIT. On Windows this option has
        # another meaning.
        if os.name == "posix":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((ADDRESS, port))
        sock.listen()
    except OSError as error:
        sock.close()
        raise OSError(
            f"cannot listen on port {port}: {error.strerror}; choose another --port"
        ) from None
    return sock

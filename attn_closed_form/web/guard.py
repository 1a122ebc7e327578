"""Around the whole application: security headers on every answer, and no answer to a foreign `Host`.

A page of the web can make a browser ask 127.0.0.1 under the page's own name (DNS rebinding) and then read the answer.
So a server that is bound to a loopback address answers only to loopback names.
"""

from __future__ import annotations

import ipaddress
import json

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# No inline script or style, nothing from elsewhere, no frame around it; scripts cannot turn text into markup.
HEADERS = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """ASGI application around another one.

    Parameters
    ----------
    app : what to protect
    loopback_only : whether to answer only to Host headers that name this machine
    """

    def __init__(self, app: ASGIApp, loopback_only: bool = True) -> None:
        self.app, self.loopback_only = app, loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                extra = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in own]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if self.loopback_only and not (len(hosts) == 1 and is_loopback(host_name(hosts[0]))):
            await _refuse(send_with_headers)
        else:
            await self.app(scope, receive, send_with_headers)


async def _refuse(send: Send) -> None:
    body = json.dumps({"error": "Host: expected this machine (127.0.0.1, localhost), got another name", "status": 421})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 421, "headers": headers})
    await send({"type": "http.response.body", "body": body.encode()})


def host_name(host: str) -> str:
    """The name in a Host header, without its port.

    >>> host_name("localhost:8000"), host_name("[::1]:8000"), host_name("::1")
    ('localhost', '::1', '::1')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def is_loopback(name: str) -> bool:
    """Whether a name or an address can only mean this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("LocalHost"), is_loopback("127.0.0.1.evil.example")
    (True, True, True, False)
    """
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False

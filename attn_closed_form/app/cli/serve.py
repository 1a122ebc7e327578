"""`attn-closed-form serve`: a local page that explains a text as you type; needs the `web` extra."""

from __future__ import annotations

import argparse
import os

from .options import MODEL, Command, at_least

TOKEN = "ATTN_CLOSED_FORM_TOKEN"
EXAMPLES = f"""\
examples:
  attn-closed-form serve
  attn-closed-form serve --model my_model.npz --port 9000 --workers 4
  attn-closed-form serve --host 0.0.0.0 --token "$(openssl rand -hex 16)"
  curl -s http://127.0.0.1:8000/api/explain -H 'Content-Type: application/json' -d '{{"text": "A fine film."}}'

Only this machine can open the page unless --host makes it reachable from other machines, which requires --token. The
token can also be in the environment variable {TOKEN}. Ctrl-C stops the server. /openapi.json describes the API.
"""


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    try:
        from ..web.app import Limits
        from ..web.serve import serve
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "starlette", "pydantic", "uvicorn", "anyio"):
            raise
        raise ImportError(f"serve needs {error.name}: pip install '.[web]'") from None
    limits = Limits(queue=args.queue, seconds=args.timeout)
    token = args.token or os.environ.get(TOKEN) or None
    return serve(args.model, args.host, args.port, args.workers, token, limits)


SERVE = Command(
    "Serve a page, and its JSON API, that explains a text at every keystroke.",
    {
        **MODEL,
        "--host ADDRESS": (None, "127.0.0.1", "address to listen on"),
        "--port N": (at_least(0, "a port up to 65535", 65535), 8000, "port; 0 selects a free one"),
        "--token SECRET": "secret that requests must carry; required if other machines can connect",
        "--workers N": (at_least(1), 1, "processes"),
        "--queue N": (
            at_least(1),
            64,
            "maximum number of requests at a time; further ones get status 503",
        ),
        "--timeout S": (
            at_least(1),
            30,
            "time limit for an answer in seconds; after that, status 504",
        ),
    },
    run,
    EXAMPLES,
)

"""`attn-closed-form serve`: a local page that explains as you type; needs the `web` extra."""

from __future__ import annotations

import argparse
import os
from typing import Any

from .options import add_model_option

TOKEN = "ATTN_CLOSED_FORM_TOKEN"
EXAMPLES = f"""\
examples:
  attn-closed-form serve
  attn-closed-form serve --model my_model.npz --port 9000 --workers 4
  attn-closed-form serve --host 0.0.0.0 --token "$(openssl rand -hex 16)"
  curl -s http://127.0.0.1:8000/api/explain -H 'Content-Type: application/json' -d '{{"text": "A fine film."}}'

The page is for this machine alone unless --host makes it reachable, which needs a --token. The environment variable
{TOKEN} may hold the token instead. Ctrl-C ends the server. /openapi.json describes the API.
"""


def add_serve(parser: argparse.ArgumentParser) -> None:
    """Add the options of `serve`."""
    parser.description = "Serve a page, and its JSON API, that explains a text at every keystroke."
    parser.epilog = EXAMPLES
    add_model_option(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=_number(0, 65535), default=8000, help="port, 0 for any free one (default: 8000)")
    parser.add_argument(
        "--token",
        default=os.environ.get(TOKEN) or None,
        help="secret that requests must carry; required for other hosts",
    )
    parser.add_argument("--workers", type=_number(1), default=1, metavar="N", help="processes (default: 1)")
    parser.add_argument(
        "--queue", type=_number(1), default=64, metavar="N", help="requests at a time, more get 503 (default: 64)"
    )
    parser.add_argument(
        "--timeout", type=_number(1), default=30, metavar="S", help="seconds for an answer, then 504 (default: 30)"
    )
    parser.set_defaults(run=run)


def _number(least: int, most: int = 10**6) -> Any:
    def convert(value: str) -> int:
        if not value.isascii() or not value.isdigit() or not least <= int(value) <= most:
            raise argparse.ArgumentTypeError(f"expected a number in {least}..{most}, got {value!r}")
        return int(value)

    return convert


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
    return serve(args.model, args.host, args.port, args.workers, args.token, limits)

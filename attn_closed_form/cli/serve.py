"""`attn-closed-form serve`: a local page that explains as you type; needs the `web` extra."""

from __future__ import annotations

import argparse
import os
from typing import Any

from .source import add_model_option

EXAMPLES = """\
examples:
  attn-closed-form serve
  attn-closed-form serve --model my_model.npz --port 9000 --workers 4
  curl -s http://127.0.0.1:8000/api/explain -H 'Content-Type: application/json' -d '{"text": "A fine film."}'

The page is for this machine alone unless --host says otherwise. Ctrl-C ends it; SIGHUP replaces the workers one by one
and opens the model anew. /health says whether it can answer, /metrics counts for Prometheus.
"""


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "serve",
        help="a local page that explains as you type",
        description="Serve a page, and its JSON API, that explains a text at every keystroke.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_model_option(parser)
    parser.add_argument("--models", metavar="DIR", help="a folder of model files to choose from on the page")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=_port, default=8000, help="port, 0 for any free one (default: 8000)")
    parser.add_argument(
        "--workers", type=_count, default=default_workers(), metavar="N",
        help="processes that compute, 0 for threads of this one (default: one per core, 2 to 4)",
    )  # fmt: skip
    parser.add_argument(
        "--queue", type=_count, default=64, metavar="N", help="requests at a time, more get 503 (default: 64)"
    )
    parser.add_argument(
        "--timeout", type=_seconds, default=30.0, metavar="S", help="seconds for an answer, then 504 (default: 30)"
    )
    parser.set_defaults(run=run)


def _port(value: str) -> int:
    if not value.isascii() or not value.isdigit() or int(value) > 65535:
        raise argparse.ArgumentTypeError(f"expected a number in 0..65535, got {value!r}")
    return int(value)


def default_workers() -> int:
    """One per core, but two at least, so that a long text does not hold up a short one, and four at most."""
    return min(4, max(2, os.cpu_count() or 1))


def _count(value: str) -> int:
    if not value.isascii() or not value.isdigit():
        raise argparse.ArgumentTypeError(f"expected a number, got {value!r}")
    return int(value)


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a positive number of seconds, got {value!r}")
    return seconds


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    try:
        from ..web.app import Limits
        from ..web.serve import serve
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "anyio"):
            raise
        raise ImportError(f"serve needs {error.name}: pip install 'attn-closed-form[web]'") from None
    limits = Limits(queue=max(1, args.queue), seconds=args.timeout)
    return serve(args.models or args.model, args.host, args.port, args.workers, limits)

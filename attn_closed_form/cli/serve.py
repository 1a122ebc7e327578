"""`attn-closed-form serve`: a local page that explains as you type; needs the `web` extra."""

from __future__ import annotations

import argparse
from typing import Any

from .source import add_model_option, read_model

EXAMPLES = """\
examples:
  attn-closed-form serve
  attn-closed-form serve --model my_model.npz --port 9000
  curl -s http://127.0.0.1:8000/api/explain -H 'Content-Type: application/json' -d '{"text": "A fine film."}'

The page is for this machine alone unless --host says otherwise. Ctrl-C ends it.
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
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=_port, default=8000, help="port, 0 for any free one (default: 8000)")
    parser.set_defaults(run=run)


def _port(value: str) -> int:
    if not value.isascii() or not value.isdigit() or int(value) > 65535:
        raise argparse.ArgumentTypeError(f"expected a number in 0..65535, got {value!r}")
    return int(value)


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    try:
        from ..web.serve import serve
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "anyio"):
            raise
        raise ImportError(f"serve needs {error.name}: pip install 'attn-closed-form[web]'") from None
    return serve(read_model(args.model), args.model, args.host, args.port)

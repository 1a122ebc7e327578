"""`attn-closed-form serve`: a local page that explains a text as you type; needs the `web`
extra.
"""

from __future__ import annotations

import argparse

from .options import MODEL, Command, at_least


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    try:
        from ..web.serve import serve
    except ModuleNotFoundError as error:
        # The packages of the extra `web`, whose absence has advice.
        packages = ("fastapi", "starlette", "pydantic", "uvicorn", "anyio")
        if error.name not in packages:
            raise
        raise ImportError(f"serve needs {error.name}: pip install '.[web]'") from None
    return serve(args.model, args.port, args.timeout)


serve_command = Command(
    description="Serve a page, and its JSON API, that explains a text at every keystroke.",
    options={
        **MODEL,
        "--port N": (at_least(0, "a port up to 65535", 65535), 8000, "port; 0 selects a free one"),
        "--timeout S": (
            at_least(1),
            30,
            "time limit of an answer in seconds; after that, status 504",
        ),
    },
    run=run,
    examples="""\
examples:
  attn-closed-form serve
  attn-closed-form serve --model my_model.npz --port 9000
  curl -s http://127.0.0.1:8000/api/explain -H 'Content-Type: application/json' -d '{"text": "A fine film."}'

Only this machine can open the page. To host it for others, see `make_app` in docs/service.md. Ctrl-C stops the server.
/openapi.json describes the API.
""",  # noqa: E501
)

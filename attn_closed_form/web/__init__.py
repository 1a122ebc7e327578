"""A local page that explains as one types: `attn-closed-form serve` (extra `web`: starlette and uvicorn).

`fields.py` checks what a request says, `answers.py` computes, `app.py` ties both to addresses, `guard.py` keeps
strangers out, `reference.py` documents the API, `serve.py` is the command; `static/` holds the page.
"""

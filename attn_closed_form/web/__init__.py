"""A local page that explains as one types: `attn-closed-form serve` (extra `web`: starlette and uvicorn).

`fields.py` checks what a request says, `answers.py` computes, `computing.py` and `workers.py` say in which thread or
process, `app.py` ties all that to addresses, `metrics.py` counts, `guard.py` keeps strangers out, `reference.py`
documents the API, `serve.py` is the command; `static/` holds the page.
"""

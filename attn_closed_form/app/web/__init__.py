"""A local page that explains a text as you type: `attn-closed-form serve` (extra `web`: FastAPI and
uvicorn).

`schema.py` defines requests and answers, `answers.py` computes the answers, `app.py` is the
application, `serve.py` runs it, and `static/` is the page.
"""

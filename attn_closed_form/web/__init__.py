"""A local page that explains as one types: `attn-closed-form serve` (extra `web`: FastAPI and uvicorn).

`schema.py` has the fields of requests and answers, `app.py` the application, `serve.py` runs it; `static/` is the page.
"""

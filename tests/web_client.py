"""A small model behind the page's application, and a client that needs no network."""

import asyncio

import httpx

from attn_closed_form import TextClassifier
from attn_closed_form.app.models.text import Vocabulary
from attn_closed_form.app.web.app import make_app
from attn_closed_form.attention import random_weights

WORDS = ["[CLS]", "[UNK]", "a", "fine", "dull", "film", "with", "songs", "and", "tears", "👍"]
TEXT = "A fine film with 😀 songs, and a dull, dull film!"
MODEL = TextClassifier(
    random_weights(seed=3, D=len(WORDS), T_max=17, C=2), Vocabulary(WORDS), ("dull", "fine")
)
APP = make_app(MODEL, "a small model")


async def send_async(app, method, path, host="127.0.0.1:8000", **options):
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
        return await client.request(method, path, **options)


def send(method, path, app=APP, **options):
    return asyncio.run(send_async(app, method, path, **options))


def post(data, path="/api/explain", **options):
    return send("POST", path, json=data, **options)


def raw(content, media_type="application/json", path="/api/explain", **options):
    return send("POST", path, content=content, headers={"content-type": media_type}, **options)

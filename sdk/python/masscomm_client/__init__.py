"""A client of masscomm's REST API.

    with Client("http://127.0.0.1:8080", key="mc_…") as client:
        send = client.send(type="news", club_id=1, to_users=[42], data={"title": "Hello", "body": "It works."})
        for progress in client.follow(send["send_id"]):
            print(progress["totals"])

AsyncClient has the same methods as coroutines and asynchronous iterators. A request is repeated after a time-out, a
429 and a 5xx; the repetition has the same Idempotency-Key, so that a send is executed once.
"""

from .asynchronous import AsyncClient
from .errors import ApiError
from .synchronous import Client
from .webhooks import WebhookError, verify_webhook

__all__ = ["ApiError", "AsyncClient", "Client", "WebhookError", "verify_webhook"]

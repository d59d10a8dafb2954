"""A loopback HTTP server that records its requests and returns prepared answers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.servers.http_server import Answer, Asked, http_server


@dataclass
class AnsweringServer:
    # Returns the part of a request that `asked` has.
    read: Callable[[Asked], Any]
    url: str = ""
    # The result of `read` for each request.
    asked: list[Any] = field(default_factory=list)
    # The Authorization header of each request, stored separately because it depends on the time.
    authorizations: list[str] = field(default_factory=list)
    # One response for each request; the last one is repeated; None closes the connection.
    answers: list[tuple[int, bytes] | None] = field(default_factory=lambda: [(200, b"{}")])

    def answer(self, asked: Asked) -> Answer:
        self.asked.append(self.read(asked))
        self.authorizations.append(asked.headers.get("authorization", ""))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return None if answer is None else (answer[0], {"Content-Type": "application/json"}, answer[1])


@contextmanager
def answering(read: Callable[[Asked], Any]) -> Iterator[AnsweringServer]:
    made = AnsweringServer(read)
    with http_server(made.answer) as made.url:
        yield made

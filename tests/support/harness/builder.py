from collections.abc import Iterable
from typing import Any

from functions.builder.build_messages import BuildMessages
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.records import AvroRecord, DeliveryRequested
from masscomm.domain.users import Template, User
from masscomm.kafka import topics
from masscomm.rendering.templates import TemplateCache
from masscomm.stores.decision_log.in_memory import InMemoryDecisionLog
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.harness.chain import Chain

TEMPLATE_ERROR = ("failed", "template_error")


class Builder(Chain):
    """The use case of the builder, with a directory in which users 1 to 3 of club 7 have names and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = InMemoryDirectory()
        self.log = InMemoryDecisionLog()
        self.register = InMemorySends(self.clock)
        self.use_case = BuildMessages(
            directory=self.directory,
            templates=TemplateCache(self.directory, self.clock),
            clock=self.clock,
            decision_log=self.log,
            sends=self.register,
        )
        for user_id, name in enumerate(("Ada", "Bob", "Eve"), start=1):
            self.put_user(user_id, first_name=name)

    def put_user(self, user_id: int, **columns: Any) -> None:
        usual: dict[str, Any] = {"user_id": user_id, "club_id": 7, "email": f"user{user_id}@example.com"}
        self.directory.put(User(**usual | columns))

    def put_template(self, title: str, body: str, **columns: Any) -> None:
        usual: dict[str, Any] = {"template_id": 1, "club_id": None, "type": "news", "channel": "push", "locale": "en"}
        self.directory.put(Template(**usual | {"title": title, "body": body} | columns))

    def build(self, *records: AvroRecord) -> list[int]:
        """Process these records at offsets 0, 1, …; return the offsets to be redelivered."""
        entries = [self.encoded(record, topics.BUILD, offset=offset) for offset, record in enumerate(records)]
        return self.run(self.use_case, *entries)


def texts_by_user(deliveries: Iterable[DeliveryRequested]) -> dict[int, dict[str, str]]:
    """Return the rendered texts: user → field → text."""
    return {
        user_id: {column.field: column.value_at(row) for column in record.content}
        for record in deliveries
        for row, user_id in enumerate(record.user_ids)
    }

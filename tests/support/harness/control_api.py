"""The routes that control a send, over stores in memory."""

from datetime import UTC, datetime
from typing import Any

import pytest

from functions.sends_api.routes.cancel import CancelRoute
from functions.sends_api.routes.controllable import Control
from functions.sends_api.routes.pause import PauseRoute, ResumeRoute
from functions.sends_api.routes.reschedule import RescheduleRoute
from functions.sends_api.routes.send import SendRoute
from masscomm.clock import FixedClock
from masscomm.http.problem import Problem
from masscomm.http.tenant import Clubs
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore
from masscomm.stores.metrics.port import ChannelTotals, SendTotals
from masscomm.stores.sends.in_memory import InMemorySends

OWN = Clubs(frozenset({7}))
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class ControlApi:
    """The routes of a send and of its controls over one store: club 7 sends to 100 users, 40 are published."""

    def __init__(self) -> None:
        self.clock = FixedClock(1_700_000_000_000)
        self.register = InMemorySends(self.clock)
        self.store = InMemoryMetricsStore(watermark=NOON)
        self.count(sent=40)
        self.audit_log = InMemoryAuditLog()
        self.delay_store = InMemoryDelayStore()
        self.connect()

    def connect(self) -> None:
        """Build the routes over the stores, which a test may have replaced."""
        control = Control(self.store, self.register, self.delay_store, self.clock, self.audit_log)
        self.cancel_route = CancelRoute(control)
        self.pause_route = PauseRoute(control)
        self.resume_route = ResumeRoute(control)
        self.reschedule_route = RescheduleRoute(control)
        self.send_route = SendRoute(self.store, self.register, self.clock)

    def count(self, **by_status: int) -> None:
        totals = ChannelTotals(100, 0, 100, {status: {"": number} for status, number in by_status.items()})
        self.store.sends["s"] = SendTotals(
            send_id="s",
            club_id=7,
            type="news",
            requested_at=NOON,
            chunk_count=1,
            chunks=1,
            channels={"push": totals},
            watermark=NOON,
        )

    def cancel(self, send_id: str = "s", *, clubs: Clubs = OWN, content: str | None = None) -> Any:
        return self.cancel_route.answer(send_id, {}, clubs, content, "k1")

    def refusal(self, send_id: str = "s", **request: Any) -> tuple[int, str]:
        with pytest.raises(Problem) as raised:
            self.cancel(send_id, **request)
        return raised.value.status, raised.value.detail

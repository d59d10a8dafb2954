"""The page of a send that moves, in a real Chromium, over the functions in memory behind the local gateway."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from functions.sends_api import handler as sends_api
from masscomm.stores.metrics.port import ChannelTotals
from tests.support.harness.console import Console, open_console, open_page

pytestmark = pytest.mark.nightly
SEND_ID = "3f5e7b0c-6d0e-4a52-9d5c-0d3c3a1f7f39"


@pytest.fixture
def console(url_of_one_send: str) -> Iterator[Console]:
    with open_console(url_of_one_send, "viewer") as opened:
        yield opened


def end_the_send() -> None:
    store: Any = sends_api.bootstrap().send_route.store
    sent = ChannelTotals(3, 0, 3, {"sent": {"": 3}})
    store.sends[SEND_ID] = replace(store.sends[SEND_ID], channels={"push": sent})


def follow_to_the_end(console: Console) -> None:
    open_page(console.page, f"{console.url}/#/sends/{SEND_ID}")
    expect(console.page.get_by_test_id("state")).to_have_text("Paused")
    assert console.count("sent") == 2
    end_the_send()
    console.wait_for_state("Ended")
    assert console.count("sent") == 3


def test_one_connection_shows_each_change_of_a_send(console: Console) -> None:
    follow_to_the_end(console)
    (response,) = [each.response() for each in console.requests if "/events" in each.url]
    assert response is not None
    assert response.headers["content-type"] == "text/event-stream"


def test_long_polls_replace_events_that_no_server_streams(console: Console) -> None:
    """As through API Gateway."""

    def without_events(route: Route) -> None:
        route.continue_(headers={**route.request.headers, "accept": "application/json"})

    console.page.route("**/events*", without_events)
    follow_to_the_end(console)
    polls = [each for each in console.requests if "/events" in each.url]
    assert ["after=" in each.url for each in polls][:2] == [False, True]

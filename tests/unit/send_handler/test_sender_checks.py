"""Sends whose e-mails SES would refuse are refused before anything is stored."""

from dataclasses import replace
from typing import Any

import pytest

from functions.send_handler.sender_checks import SenderChecks
from masscomm.domain.email_settings import EmailOrigin
from masscomm.errors import Retry
from tests.support.emails import emails_of_club_7
from tests.support.harness.send_api import SendApi

BODY: dict[str, Any] = {"club_id": 7, "type": "news", "channels": ["email"], "to_users": [1]}


class Answers:
    """What SES answers about senders."""

    def __init__(self, answer: bool | Exception) -> None:
        self.answer = answer
        self.asked: list[EmailOrigin] = []

    def accepts(self, origin: EmailOrigin) -> bool:
        self.asked.append(origin)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def api_with(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> SendApi:
    api = SendApi(monkeypatch)
    checks = SenderChecks(emails_of_club_7, lambda: answers)
    api.use_cases = replace(api.use_cases, senders=checks)
    return api


@pytest.mark.kills(guard="email.unverified_sender")
def test_unverified_sender_refuses_a_send_and_stores_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    api = api_with(Answers(False), monkeypatch)
    status, body, _ = api.post(**BODY)
    assert status == 409
    assert "club7.example" in body["detail"]
    assert api.sends() == []


@pytest.mark.kills(guard="email.mandatory_unchecked")
@pytest.mark.parametrize(
    ("answer", "changes"),
    [
        (True, {}),
        (Retry("SES is down"), {}),
        (False, {"club_id": 8}),
        (False, {"channels": ["push"]}),
        (False, {"type": "security_alert"}),
    ],
)
def test_send_without_a_refused_sender_is_accepted(
    answer: bool | Exception, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    api = api_with(Answers(answer), monkeypatch)
    status, _, _ = api.post(**BODY | changes)
    assert status == 202


def test_sender_of_the_environment_needs_no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers(True)
    api_with(answers, monkeypatch).post(**BODY | {"club_id": 8})
    assert not answers.asked

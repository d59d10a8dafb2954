"""Refuses sends whose e-mails SES would refuse: the sender of the tenant is not verified, or not associated."""

from collections.abc import Callable
from typing import Protocol

from functions.send_handler.send_request import SendRequest
from masscomm.domain.categories import category
from masscomm.domain.email_settings import EmailOrigin, EmailTable
from masscomm.errors import MasscommError
from masscomm.http.problem import Problem
from masscomm.observability import logs
from masscomm.texts import Text

logger = logs.logger("send_handler")


class Senders(Protocol):
    """Knows which senders SES accepts."""

    def accepts(self, origin: EmailOrigin) -> bool:
        """Return whether SES accepts e-mails with this sender. Raises Retry or Stop if it is not known."""
        ...


class SenderChecks:
    """Checks the senders of schemas/email.yaml; the deployment has checked that of the environment.

    Best effort: while SES does not respond, sends are accepted, and delivery holds e-mails that it refuses. Mandatory
    categories are not checked, so that no one-time password waits for it.

    Args:
        emails: Returns the contents of the file.
        senders: Returns the senders that SES accepts. It is called at the first send with another sender.
    """

    def __init__(self, emails: Callable[[], EmailTable], senders: Callable[[], Senders]) -> None:
        self._emails = emails
        self._senders = senders

    def check(self, send: SendRequest) -> None:
        """Raise Problem with status 409 if SES would refuse the e-mails of a send."""
        emails = self._emails()
        origin = emails.club(send.club_id).of(send.type, is_mandatory=False)
        if origin == emails.usual or "email" not in send.resolved_channels():
            return
        if category(send.type, send.club_id).mandatory:  # guard: email.mandatory_unchecked
            return
        try:
            accepted = self._senders().accepts(origin)
        except MasscommError as error:
            logger.warning("the send is accepted without a check of its sender", error=str(error))
            return
        if not accepted:  # guard: email.unverified_sender
            raise Problem(409, Text.EMAIL_SENDER_NOT_READY.filled(domain=origin.address.rpartition("@")[2]))

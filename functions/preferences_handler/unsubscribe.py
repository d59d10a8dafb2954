"""The ways out of an e-mail's category: the pages of its link, and e-mails to the mailbox.

The page of a link has a button, and only its request unsubscribes.

Programs that check links in e-mails request each of them, so GET changes nothing. Mail programs unsubscribe with one
click by a POST (RFC 8058), others by an e-mail whose subject is the token. The token is the only credential: it names
the user, the club (tenant) and the category, and permits nothing else.
"""

import base64
import hashlib
import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_plus

from functions.preferences_handler.unsubscribe_texts import TEXTS, Texts, language_of
from masscomm.channels.unsubscribe_links import UnsubscribeLinks, token_in_subject
from masscomm.directory.change_preferences import ChangePreferences
from masscomm.directory.person import Person
from masscomm.domain.categories import category
from masscomm.domain.key_limits import REQUESTS
from masscomm.domain.preference_changes import UNSUBSCRIBE, Wish
from masscomm.domain.preferences import decide_by_user_settings
from masscomm.domain.unsubscribe_tokens import Subscription
from masscomm.errors import MasscommError, Retry
from masscomm.http.html_page import STYLE, html_page
from masscomm.http.problem import Problem
from masscomm.http.rate_limits import RateLimiter
from masscomm.http.rest import Request, Response
from masscomm.observability import logs

logger = logs.logger("preferences_handler")

CHANNEL = "email"
HTML = "text/html; charset=utf-8"
# The clicks on one link in a minute, and the look-ups for its page, which mail scanners request, too.
REQUESTS_A_MINUTE = 20
_LONGEST_BODY = 10_000
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
_HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; base-uri 'none';"
        " frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}
# The key of the request of RFC 8058, in lower case.
_KEY = "list-unsubscribe"
# The name of a part of a form of several parts; `filename` is not one.
_PART_NAME = re.compile(r'\bname="?([^";\r\n]+)', re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Unsubscribe:
    """The use case of both routes and of the mailbox."""

    links: UnsubscribeLinks | None
    preferences: ChangePreferences
    limiter: RateLimiter
    # Returns the name of the sender of e-mails, or the domain of its address.
    sender: Callable[[Subscription], str] = lambda _: ""

    def page(self, request: Request, token: str) -> Response:
        """Return the page of a link: a button, or what its click has done before."""
        return self._answer(request, token, acts=False)

    def act(self, request: Request, token: str) -> Response:
        """Unsubscribe the recipient of the link from its category, and return the page that says so."""
        if _names_another_key(request):  # guard: unsubscribe.one_click
            page = self._page_for(request)
            return page.answer(HTTPStatus.BAD_REQUEST, page.texts.form_title, page.texts.form)
        return self._answer(request, token, acts=True)

    def receive(self, event: Mapping[str, Any]) -> int:
        """Unsubscribe by the e-mails in an event of an SES receipt rule; return their number. An e-mail without a valid
        token has no effect: its text, and who sent it, are read by nobody. Raises Retry; a repetition is harmless.

        Source: https://docs.aws.amazon.com/ses/latest/dg/receiving-email-action-lambda-event.html
        """
        unsubscribed = 0
        for record in event["Records"]:
            token = token_in_subject(str(record["ses"]["mail"].get("commonHeaders", {}).get("subject") or ""))
            subscription = None if token is None else self._subscription(token)
            if subscription is not None and self._found(subscription, acts=True) is not None:
                unsubscribed += 1
            else:
                logger.info("an e-mail to the unsubscribe mailbox has no valid token")
        return unsubscribed

    def _subscription(self, token: str) -> Subscription | None:
        """Return the subscription in a token; None if it is not valid, or its category is mandatory. Raises Retry."""
        found = self.links.subscription(token) if self.links is not None else None
        is_mandatory = found is not None and category(found.category, found.club_id).mandatory
        return None if is_mandatory else found

    def _page_for(self, request: Request) -> "_Page":
        """Return the page for a reader whose user is not known yet, in a language of the browser."""
        return _Page(language_of((request.header("accept-language") or "").partition(",")[0]), self.sender)

    def _answer(self, request: Request, token: str, *, acts: bool) -> Response:
        page = self._page_for(request)
        try:
            subscription = self._subscription(token)
            if subscription is None:
                return page.invalid()
            refused = self._refused(token, acts=acts)
            if refused is not None and not acts:  # guard: unsubscribe.scanned_page
                # The person can click, whatever number of requests a scanner has made.
                return page.question(subscription)
            if refused is not None:
                after = {} if refused.retry_after_s is None else {"Retry-After": str(refused.retry_after_s)}
                return page.answer(refused.status, page.texts.often_title, page.texts.often, headers=after)
            found = self._found(subscription, acts=acts)
        except Retry as error:
            logger.warning("a dependency is down", error=str(error))
            texts, after = page.texts, {"Retry-After": "60"}
            return page.answer(HTTPStatus.SERVICE_UNAVAILABLE, texts.later_title, texts.later, headers=after)
        # An unknown user has the same page as an invalid token, in the same language.
        if found is None:
            return page.invalid()
        page = _Page(language_of(found.user.locale), self.sender)
        if not _is_unsubscribed(found, subscription):
            return page.question(subscription)
        return page.answer(HTTPStatus.OK, page.texts.done_title, page.texts.done, subscription)

    def _found(self, subscription: Subscription, *, acts: bool) -> Person | None:
        """Return the recipient's preferences, after unsubscribing if the request acts; None if the club does not have
        the user.
        """
        user_id, club_id, name = subscription
        found = self.preferences.find(user_id, {club_id})  # guard: unsubscribe.tenant
        if not acts or found is None or _is_unsubscribed(found, subscription):
            return found
        wish = Wish(name, CHANNEL, False)  # guard: unsubscribe.category
        return self.preferences.change(user_id, {club_id}, [wish], source=UNSUBSCRIBE)

    def _refused(self, token: str, *, acts: bool) -> Problem | None:
        """Count a click on a link, or a request for its page. Return the problem with status 429 if there are too many.
        If the store of counts is down, the request is served: an opt-out has precedence.
        """
        # The end of the signature identifies the link, and no person.
        link = f"unsubscribe{'' if acts else '-page'}:{token[-16:]}"  # guard: unsubscribe.clicks_apart
        try:
            self.limiter.take(REQUESTS, REQUESTS_A_MINUTE, 1, key_id=link)  # guard: unsubscribe.rate
        except Problem as problem:
            return problem
        except MasscommError as error:
            logger.warning("a request to an unsubscribe link is not counted", error=str(error))
        return None


def _is_unsubscribed(found: Person, subscription: Subscription) -> bool:
    """Return whether a rule for the category excludes its e-mails. A rule for all e-mails does not count, because the
    user may change it.
    """
    decision = decide_by_user_settings(
        found.settings, club_id=subscription.club_id, type=subscription.category, channel=CHANNEL
    )
    return decision.status is not None and (decision.rule or "").startswith("category:")


@dataclass(frozen=True)
class _Page:
    """The pages in one language."""

    language: str
    sender: Callable[[Subscription], str]

    @property
    def texts(self) -> Texts:
        return TEXTS[self.language]

    def question(self, subscription: Subscription) -> Response:
        """Return the page with the button."""
        form = (
            '<form method="post"><input type="hidden" name="List-Unsubscribe" value="One-Click">'
            f'<button type="submit">{self.texts.button}</button></form>'
        )
        return self.answer(HTTPStatus.OK, self.texts.ask_title, self.texts.ask, subscription, below=form)

    def invalid(self) -> Response:
        """Return the page of a link that we did not sign, of an expired one, and of one whose user or category does not
        exist.
        """
        return self.answer(HTTPStatus.NOT_FOUND, self.texts.invalid_title, self.texts.invalid)

    def answer(
        self,
        status: int,
        title: str,
        text: str,
        subscription: Subscription | None = None,
        *,
        below: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        name = description = ""
        if subscription is not None:
            found = category(subscription.category, subscription.club_id)
            name = found.title(subscription.category, self.language)
            description = found.description(self.language)
        # Only the page of a link that we signed names the sender.
        sender = self.sender(subscription) if subscription is not None else ""
        above = self.texts.sender.format(sender=sender) if sender else ""
        about = f"<p>{html.escape(description)}</p>" if description else ""
        content = f"<p>{text.format(category=f'<b>{html.escape(name)}</b>')}</p>{about}{below}"
        page = html_page(title, content, above=above, language=self.language)
        return Response(status, HTML, page, {**_HEADERS, **(headers or {})})


def _names_another_key(request: Request) -> bool:
    """Return whether the body, a form of either kind, has a key other than that of RFC 8058, or cannot be read.

    Mail programs send that form with a line break after it, with other values, or not at all.
    """
    try:
        content = request.text() or ""
    except Problem:
        return True
    if len(content) > _LONGEST_BODY:
        return True
    if (request.header("content-type") or "").lower().startswith("multipart/form-data"):
        names = _PART_NAME.findall(content)
    else:
        names = [unquote_plus(field.partition("=")[0]) for field in content.split("&") if "=" in field]
    return any(name.strip().lower() != _KEY for name in names)

"""Warns the caller about content of a send that is not used, such as a title where a template has precedence, and
finds sends whose template does not exist.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDone
from typing import TYPE_CHECKING

from functions.send_handler.send_request import SendRequest
from masscomm.domain.time_limits import WARNINGS_S
from masscomm.errors import MasscommError
from masscomm.http.problem import FieldError, invalid
from masscomm.http.send_scopes import LITERAL_NAMES
from masscomm.observability import logs
from masscomm.texts import Text

if TYPE_CHECKING:
    from masscomm.http.unused_content import ContentChecks

logger = logs.logger("send_handler")

# A look-up; None: it was left out.
type LookUp = Future[list[FieldError]] | None


class SendWarnings:
    """Looks up the templates of a send while its chunks are produced. Best effort: an accepted send stays accepted
    without its warnings, and a send whose template cannot be looked up is accepted.

    Args:
        checks: Returns the checks of content. It is called by one thread only, and builds them at the first call: a
            cold start does not import the compiler before the first send is on its way.
    """

    def __init__(self, checks: "Callable[[], ContentChecks]") -> None:
        self._checks = checks
        self._pool = ThreadPoolExecutor(1)
        self._last: LookUp = None

    def begin(self, send: SendRequest) -> LookUp:
        """Begin to look up the warnings of a send."""
        return self._begin(self._warnings, send)

    def check_template(self, send: SendRequest) -> None:
        """Check that the template that a send names exists on one of its channels, unless the send has words of its
        own. The templates are cached, so that the warnings need no further look-up. Raises Problem with status 400.
        """
        if send.template is None or send.data.keys() >= LITERAL_NAMES:
            return
        if errors := result_of(self._begin(self._missing, send)):  # guard: templates.unknown_template
            raise invalid(errors)

    def _begin(self, look_up: Callable[[SendRequest], list[FieldError]], send: SendRequest) -> LookUp:
        # While the directory hangs, only the first request waits for it.
        if self._last is not None and not self._last.done():  # guard: templates.warnings_do_not_queue
            return None
        self._last = self._pool.submit(look_up, send)
        return self._last

    def _missing(self, send: SendRequest) -> list[FieldError]:
        keys = send.template_keys()
        found = not keys or self._checks().has_template(keys)
        return [] if found else [FieldError("template", Text.TEMPLATE_UNKNOWN.filled())]

    def _warnings(self, send: SendRequest) -> list[FieldError]:
        return self._checks().unused(send.content(), send.template_keys(), send.variable_names)


def result_of(look_up: LookUp) -> Sequence[FieldError]:
    """Wait for the result of a look-up."""
    try:
        return () if look_up is None else look_up.result(WARNINGS_S)
    except (MasscommError, NotDone) as error:
        logger.warning("the send is accepted without warnings", error=repr(error))
    except Exception:
        logger.exception("the warnings of a send failed in our own code")
    return ()

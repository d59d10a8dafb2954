"""Warns the caller about content of a send that is not used, such as a title where a template has precedence, and
finds sends whose template does not exist.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDone
from typing import TYPE_CHECKING

from functions.send_handler.send_request import LITERAL, SendRequest
from masscomm.domain.time_limits import WARNINGS_S
from masscomm.errors import MasscommError
from masscomm.http.problem import FieldError, invalid
from masscomm.observability import logs
from masscomm.texts import Text

if TYPE_CHECKING:
    from masscomm.rendering.templates import TemplateCache

logger = logs.logger("send_handler")


class SendWarnings:
    """Looks up the templates of a send while its chunks are produced. Best effort: an accepted send stays accepted
    without its warnings, and a send whose template cannot be looked up is accepted.

    Args:
        templates: Returns the cache of templates. It is called by one thread only.
    """

    def __init__(self, templates: "Callable[[], TemplateCache]") -> None:
        self._templates = templates
        self._pool = ThreadPoolExecutor(1)
        self._last: Future[list[FieldError]] | None = None

    def begin(self, send: SendRequest) -> Callable[[], Sequence[FieldError]]:
        """Begin to look up the templates of a send. Returns a function that waits for the warnings."""
        return self._begin(self._warnings, send)

    def check_template(self, send: SendRequest) -> None:
        """Check that the template that a send names exists on one of its channels, unless the send has words of its
        own. The templates are cached, so that the warnings need no further look-up. Raises Problem with status 400.
        """
        if send.template is None or send.data.keys() >= LITERAL:
            return
        if errors := self._begin(self._missing, send)():  # guard: templates.unknown_template
            raise invalid(errors)

    def _begin(
        self, look_up: Callable[[SendRequest], list[FieldError]], send: SendRequest
    ) -> Callable[[], Sequence[FieldError]]:
        # While the directory hangs, only the first request waits for it.
        if self._last is not None and not self._last.done():  # guard: templates.warnings_do_not_queue
            return tuple
        self._last = found = self._pool.submit(look_up, send)
        return lambda: _result(found)

    def _missing(self, send: SendRequest) -> list[FieldError]:
        if any(self._templates().load(send.template_keys()).values()):
            return []
        return [FieldError("template", Text.TEMPLATE_UNKNOWN.filled())]

    def _warnings(self, send: SendRequest) -> list[FieldError]:
        # A cold start does not import the compiler before the first send is on its way.
        from masscomm.http.unused_content import unused_content

        found = self._templates().load(send.template_keys())
        return unused_content(
            send.content(), {key[2]: templates for key, templates in found.items()}, send.variable_names
        )


def _result(found: "Future[list[FieldError]]") -> Sequence[FieldError]:
    try:
        return found.result(WARNINGS_S)
    except (MasscommError, NotDone) as error:
        logger.warning("the send is accepted without warnings", error=repr(error))
    except Exception:
        logger.exception("the warnings of a send failed in our own code")
    return ()

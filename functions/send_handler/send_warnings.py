"""Warns the caller about content of a send that is not used, such as a title where a template has precedence."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDone
from typing import TYPE_CHECKING

from functions.send_handler.send_request import SendRequest
from masscomm.domain.time_limits import WARNINGS_S
from masscomm.errors import MasscommError
from masscomm.http.problem import FieldError
from masscomm.observability import logs

if TYPE_CHECKING:
    from masscomm.rendering.templates import TemplateCache

logger = logs.logger("send_handler")


class SendWarnings:
    """Looks up the templates of a send while its chunks are produced. Best effort: an accepted send stays accepted
    without its warnings.

    Args:
        templates: Returns the cache of templates. It is called by one thread only.
    """

    def __init__(self, templates: "Callable[[], TemplateCache]") -> None:
        self._templates = templates
        self._pool = ThreadPoolExecutor(1)
        self._last: Future[list[FieldError]] | None = None

    def begin(self, send: SendRequest) -> Callable[[], Sequence[FieldError]]:
        """Begin to look up the templates of a send. Returns a function that waits for the warnings."""
        # While the directory hangs, only the first request waits for it.
        if self._last is not None and not self._last.done():  # guard: templates.warnings_do_not_queue
            return tuple
        self._last = found = self._pool.submit(self._warnings, send)
        return lambda: _result(found)

    def _warnings(self, send: SendRequest) -> list[FieldError]:
        # A cold start does not import the compiler before the first send is on its way.
        from masscomm.rendering.unused_content import unused_content

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

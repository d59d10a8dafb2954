"""The error of a digest in a request: of a category, or of a send."""

from masscomm.domain.digests import MAX_LISTED
from masscomm.domain.time_limits import LONGEST_DIGEST_S
from masscomm.http.problem import FieldError
from masscomm.texts import Text


def form_error() -> FieldError:
    """Return the error of the field `digest` of a request, which `read_digest` refuses."""
    days = round(LONGEST_DIGEST_S) // 86_400
    return FieldError("digest", Text.DIGEST_FORM.filled(listed=MAX_LISTED, days=days))

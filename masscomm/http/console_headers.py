"""The security headers of the console's files: its scripts and styles are files of its own, and it calls its own
address and the issuer only.
"""

from collections.abc import Iterable


def content_security_policy(issuers: Iterable[str] = ()) -> str:
    """Return the Content-Security-Policy of the console.

    Args:
        issuers: The origins, other than the console's own, that a sign-in calls.
    """
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src"
        f" {' '.join(("'self'", *issuers))};"
        " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


REFERRER_POLICY = "no-referrer"
CONTENT_TYPE_OPTIONS = "nosniff"

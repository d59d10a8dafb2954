"""The security headers of the console's files: its scripts and styles are files of its own, and it calls its own
address and the issuer only. The documentation calls its own address only.
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


# VitePress colours code by style attributes. The hash is that of the style by which it suppresses transitions while it
# changes between light and dark.
DOCS_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'sha256-skqujXORqzxt1aE0NNXxujEanPTX6raoqSscTV/Ww/Y=';"
    " style-src-attr 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
# Redoc makes its styles and the worker of its search while it runs.
REFERENCE_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; worker-src blob:; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REFERRER_POLICY = "no-referrer"
CONTENT_TYPE_OPTIONS = "nosniff"

"""The address that a device opens when its user taps a push: https, or the scheme of an app."""

import re

# Visible ASCII characters: a link has all others percent-encoded.
_LINK = re.compile(r"([a-z][a-z0-9+.-]*)://[!-~]+")
# Schemes that no app owns. Those of code and files would execute or read something on the device.
_REFUSED = frozenset(
    {
        *("about", "blob", "chrome", "content", "data", "file", "filesystem", "ftp", "http", "intent", "javascript"),
        *("vbscript", "view-source", "ws", "wss"),
    }
)


def is_deep_link(text: str) -> bool:
    """Return whether a text is an address with https, or with the scheme of an app, as riverside://matches/7."""
    found = _LINK.fullmatch(text)
    return found is not None and found[1] not in _REFUSED  # guard: push.scheme_of_link

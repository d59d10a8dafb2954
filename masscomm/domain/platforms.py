"""The push platforms, and the words by which other systems name them."""

from masscomm.domain.names import folded

# The platform of each word. SNS calls Firebase GCM in the names of its applications.
_PLATFORMS = {
    "gcm": "gcm",
    "fcm": "gcm",
    "firebase": "gcm",
    "android": "gcm",
    "apns": "apns",
    "apple": "apns",
    "ios": "apns",
    "ipados": "apns",
}


def platform_named(word: object) -> str | None:
    """Return the platform, gcm or apns, that a word names without regard to case and blanks; None for other values."""
    if not isinstance(word, str):
        return None
    return _PLATFORMS.get(folded(word))  # guard: devices.platform_words

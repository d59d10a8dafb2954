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
# The platform of each kind of SNS' platform applications.
_APPLICATIONS = {"GCM": "gcm", "APNS": "apns", "APNS_SANDBOX": "apns"}


def platform_named(word: object) -> str | None:
    """Return the platform, gcm or apns, that a word names without regard to case and blanks; None for other values."""
    if not isinstance(word, str):
        return None
    return _PLATFORMS.get(folded(word))  # guard: devices.platform_words


def platform_of_arn(arn: str) -> str | None:
    """Return the platform of an SNS endpoint, arn:…:endpoint/APNS_SANDBOX/application/id, or of a platform application,
    arn:…:app/GCM/application; None for other ARNs.
    """
    _, _, resource = arn.rpartition(":")
    kind, _, rest = resource.partition("/")
    return _APPLICATIONS.get(rest.partition("/")[0]) if kind in ("endpoint", "app") else None

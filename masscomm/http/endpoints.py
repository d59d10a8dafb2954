"""The endpoints of webhooks that a caller may name."""

from masscomm.domain.webhooks import EndpointKey
from masscomm.http.problem import Problem
from masscomm.http.tenant import Clubs
from masscomm.texts import Text


def endpoint_key(endpoint_id: str, clubs: Clubs) -> EndpointKey:
    """Return the key of an endpoint of the caller's clubs. Raises Problem with status 404 for any other id."""
    key = EndpointKey.of_id(endpoint_id)
    if key is None or key.club_id not in clubs:  # guard: tenancy.webhook
        raise unknown_endpoint()
    return key


def unknown_endpoint() -> Problem:
    """Return the response for an endpoint that does not exist, or that belongs to another club."""
    return Problem(404, Text.ENDPOINT_UNKNOWN.filled())

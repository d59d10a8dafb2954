"""Counts the notifications that malformed user settings decide, and the users whose time zone is unknown, each with an
example for the operator.
"""

from masscomm.decisions.plan import ByChannel, DirectoryView
from masscomm.domain.quiet_hours import applied_hours
from masscomm.domain.records import RecheckRequested
from masscomm.domain.setting_names import is_malformed
from masscomm.domain.time_zones import zone_of
from masscomm.observability import metrics
from masscomm.observability.metric_names import SETTINGS_MALFORMED, TIME_ZONES_UNKNOWN
from masscomm.untrusted import mask


def count_malformed(request: RecheckRequested, decisions: ByChannel) -> None:
    """Count the notifications that are suppressed or held because of malformed user settings. The metrics line of the
    invocation has one user with the rule.
    """
    found = [
        (position, decision.rule)
        for by_position in decisions.values()
        for position, decision in by_position.items()
        if is_malformed(decision.rule)
    ]
    if not found:
        return
    metrics.add(SETTINGS_MALFORMED, len(found))
    position, rule = found[0]
    user_id = request.user_ids[request.positions.index(position)]
    metrics.note(malformed_settings={"user_id": user_id, "rule": mask(rule or "")})


def count_unknown_zones(request: RecheckRequested, view: DirectoryView) -> None:
    """Count the users whose quiet hours, or whose local time of the send, follow UTC because their time zone is
    unknown; a user without one is not counted. The metrics line of the invocation has one user with the zone.
    """
    follows_local_time = request.send_at_local is not None
    found = [
        (user_id, user.time_zone)
        for user_id in request.user_ids
        if (user := view.users.get(user_id)) is not None
        and _is_unknown(user.time_zone)
        and (follows_local_time or _has_quiet_hours(view, user_id))
    ]
    if not found:
        return
    metrics.add(TIME_ZONES_UNKNOWN, len(found))  # guard: time_zones.unknown_is_counted
    user_id, zone = found[0]
    metrics.note(unknown_time_zone={"user_id": user_id, "time_zone": mask(str(zone))})


def _is_unknown(zone: object) -> bool:
    """Return whether a user has a time zone, and its name is unknown."""
    if isinstance(zone, str):
        return zone_of(zone) is None and not zone.isspace() and zone != ""
    return zone is not None


def _has_quiet_hours(view: DirectoryView, user_id: int) -> bool:
    settings = view.settings.get(user_id)
    return settings is not None and applied_hours(settings.quiet_hours) is not None

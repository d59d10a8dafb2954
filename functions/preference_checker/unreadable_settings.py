"""Counts the notifications that malformed user settings decide, with an example for the operator."""

from masscomm.decisions.plan import ByChannel
from masscomm.domain.records import RecheckRequested
from masscomm.domain.setting_names import is_malformed
from masscomm.observability import metrics
from masscomm.observability.metric_names import SETTINGS_MALFORMED
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

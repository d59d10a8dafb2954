"""The simulator recipients: reserved user ids, each of which always has the same result on every channel.

preference_checker decides about them by their ids alone, so that no message is written for them and no provider is
called. A test key may send to them only.
"""

from collections.abc import Mapping
from types import MappingProxyType

from masscomm.domain.channels import CHANNELS
from masscomm.domain.preferences import Decision
from masscomm.domain.statuses import Reason, Status

# The reserved range. The ids are exact in JSON numbers of every language (below 2^53).
FIRST_ID = 9_000_000_000_000_000
LAST_ID = 9_000_000_000_000_999

# The last digits of the id → the final status and its reason. Without a reason here, the channel determines it.
RESULTS: Mapping[int, tuple[Status, Reason | None]] = MappingProxyType(
    {
        1: (Status.DELIVERED, None),
        2: (Status.SENT, None),
        10: (Status.SUPPRESSED, Reason.OPTED_OUT),
        11: (Status.SUPPRESSED, Reason.UNKNOWN_USER),
        # no_device or no_address, as the channel needs
        12: (Status.SUPPRESSED, None),
        13: (Status.SUPPRESSED, Reason.DEVICE_INACTIVE),
        14: (Status.SUPPRESSED, Reason.ADDRESS_SUPPRESSED),
        15: (Status.SUPPRESSED, Reason.NOT_OPTED_IN),
        16: (Status.SUPPRESSED, Reason.FREQUENCY_CAP),
        17: (Status.SUPPRESSED, Reason.NOT_FOLLOWING),
        20: (Status.FAILED, Reason.PROVIDER_REJECTED),
        21: (Status.FAILED, Reason.NO_TEMPLATE),
        22: (Status.FAILED, Reason.TEMPLATE_ERROR),
        23: (Status.FAILED, Reason.TOO_LARGE),
        24: (Status.FAILED, Reason.INVALID_ADDRESS),
        25: (Status.FAILED, Reason.COUNTRY_NOT_ALLOWED),
        26: (Status.FAILED, Reason.SPEND_LIMIT),
        30: (Status.BOUNCED, Reason.BOUNCED_PERMANENT),
        31: (Status.BOUNCED, Reason.BOUNCED_TRANSIENT),
        32: (Status.BOUNCED, Reason.COMPLAINED),
        40: (Status.EXPIRED, Reason.EXPIRED),
    }
)
_LAYER = "simulator"
# The audience in the record of a test key's send: the simulator recipients above, whatever the request's conditions. No
# request can contain it.
AUDIENCE: Mapping[str, bool] = MappingProxyType({"simulator_recipients": True})
RECIPIENTS = tuple(FIRST_ID + last for last in RESULTS)


def is_simulated(user_id: int) -> bool:
    return FIRST_ID <= user_id <= LAST_ID  # guard: simulator.reserved_ids


def simulate(user_id: int, channel: str) -> Decision:
    """Return the final decision about a simulator recipient. An id of the range without a result is an unknown user."""
    status, reason = RESULTS.get(user_id - FIRST_ID, (Status.SUPPRESSED, Reason.UNKNOWN_USER))
    if status is Status.SUPPRESSED and reason is None:
        to_devices = channel in CHANNELS and CHANNELS[channel].to_devices
        reason = Reason.NO_DEVICE if to_devices else Reason.NO_ADDRESS
    return Decision(status, reason, _LAYER)

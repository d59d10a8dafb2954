"""The accepted sends in DynamoDB, for requests that control a send before metrics have counted it."""

from masscomm.aws.request import Limits
from masscomm.domain.time_limits import ACCEPTED_CALL_S
from masscomm.stores.send_controls_dynamodb import DynamoDbSendControls

_ATTEMPTS = 2
_ATTEMPT_S = ACCEPTED_CALL_S / _ATTEMPTS


class DynamoDbAcceptedSends(DynamoDbSendControls):
    """The store of controls with the time limits of a request that is answered."""

    LIMITS = Limits(connections=1, connect_s=_ATTEMPT_S / 2, read_s=_ATTEMPT_S / 2, attempts=_ATTEMPTS)

"""The provider of SMS and e-mail, in place of AWS End User Messaging and SES v2, which LocalStack does not have."""

import sys

from local.devstack.config import StackConfig
from local.devstack.service import Service, listens


def service(config: StackConfig) -> Service:
    """Return the specification of the stand-in, at which every sender of SMS and e-mail exists. Its messages are in
    memory, and those of an earlier start are gone.
    """
    return Service(
        name="sms",
        command=[
            *(sys.executable, "-m", "local.emulators.sns_stand_in"),
            *("--port", str(config.ports.sms), "--any-endpoint"),
        ],
        ports=("sms",),
        address=config.sms_url,
        ready=lambda: listens(config.ports.sms),
    )

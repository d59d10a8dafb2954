"""SNS as the push provider: it sends one signed request for each message.

The SDK's client uses a millisecond of CPU for each call, more than all other work of delivery for a push message, and
delivery is CPU-bound. This client does only the work that Publish needs: it encodes a form, signs it, sends it over a
kept connection and parses the answer.
"""

from collections.abc import Mapping
from typing import Unpack

from masscomm.aws.request import ServiceOptions
from masscomm.channels.query_api import QueryApi


class SnsPush:
    """Publishes to SNS platform endpoints. An instance belongs to one event loop.

    Args:
        options: The options of QueryApi.

    Raises:
        Stop: No region is set.
    """

    def __init__(self, **options: Unpack[ServiceOptions]) -> None:
        self._api = QueryApi("sns", "2010-03-31", **options)

    async def publish(self, *, endpoint_arn: str, message: str, attributes: Mapping[str, str]) -> str:
        parameters = [("TargetArn", endpoint_arn), ("Message", message), ("MessageStructure", "json")]
        for number, (name, value) in enumerate(attributes.items(), start=1):
            entry = f"MessageAttributes.entry.{number}"
            parameters += [
                (f"{entry}.Name", name),
                (f"{entry}.Value.DataType", "String"),
                (f"{entry}.Value.StringValue", value),
            ]
        return await self._api.send("Publish", parameters)

    async def close(self) -> None:
        await self._api.close()

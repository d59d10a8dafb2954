"""A proxy of Kafka's protocol: it reads single requests and matches each response with its request.

Source: Apache Kafka protocol guide: a request is a length, then API key, version and correlation id; a response is a
length, then that correlation id.
"""

import asyncio
import struct
from collections.abc import Callable

from tests.support.fault_stack.proxy.faults import Cut, Delay, Discarded, DropAnswer, Fault, Hold, HoldAnswer, Request
from tests.support.fault_stack.proxy.tcp import TcpProxy, both

PRODUCE = "0"
_SIZE = struct.Struct(">i")
_HEAD = struct.Struct(">hhi")


def produce_to(topic: str) -> Callable[[Request], bool]:
    """Return a condition that is true for produce requests to a topic."""
    name = topic.encode()
    # The length precedes the name of the topic: length + 1 in one byte, or the length in two bytes.
    forms = (bytes([len(name) + 1]) + name, bytes([0, len(name)]) + name)

    def holds(request: Request) -> bool:
        return request.operation == PRODUCE and any(form in request.body for form in forms)

    return holds


class KafkaProxy(TcpProxy):
    """A proxy of a Kafka broker, which must advertise the proxy's address."""

    async def _converse(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        upstream: asyncio.StreamWriter,
    ) -> None:
        doomed: dict[int, Fault] = {}
        await both(self._requests(reader, upstream, doomed), self._answers(there, writer, doomed))

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, doomed: dict[int, Fault]
    ) -> None:
        while True:
            size = await reader.readexactly(_SIZE.size)
            body = await reader.readexactly(_SIZE.unpack(size)[0])
            api, _, correlation = _HEAD.unpack_from(body)
            fault = self._fault_for(Request(operation=str(api), target="", body=body)) if self._faults else None
            match fault.action if fault is not None else None:
                case Delay(seconds):
                    await asyncio.sleep(seconds)
                case Cut():
                    raise Discarded
                case Hold() if fault is not None:
                    await fault.held()
                case DropAnswer() | HoldAnswer() if fault is not None:
                    doomed[correlation] = fault
            writer.write(size + body)
            await writer.drain()

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, doomed: dict[int, Fault]
    ) -> None:
        while True:
            size = await reader.readexactly(_SIZE.size)
            body = await reader.readexactly(_SIZE.unpack(size)[0])
            fault = doomed.pop(_SIZE.unpack_from(body)[0], None)
            if fault is not None:
                if isinstance(fault.action, DropAnswer):
                    raise Discarded
                await fault.held()
            writer.write(size + body)
            await writer.drain()

"""A proxy of HTTP/1.1 that reads each request and response completely before it forwards it."""

import asyncio
import re
from collections import Counter
from dataclasses import dataclass

from tests.support.fault_stack.proxy.faults import (
    Answer,
    Cut,
    Delay,
    Discarded,
    DropAnswer,
    Edit,
    Hold,
    HoldAnswer,
    Request,
)
from tests.support.fault_stack.proxy.loop import Loop
from tests.support.fault_stack.proxy.tcp import TcpProxy

_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:\s*chunked", re.IGNORECASE)
_FRAMING = re.compile(rb"\r\n(?:content-length|transfer-encoding):[^\r]*", re.IGNORECASE)
_TARGET = re.compile(rb"\r\nx-amz-target:\s*([^\r]+)", re.IGNORECASE)
_EXPECT = re.compile(rb"\r\nexpect:\s*100-continue", re.IGNORECASE)
_NO_BODY = (b"204", b"304")
_END = b"\r\n\r\n"


@dataclass(frozen=True)
class _Message:
    """An HTTP message. `head` includes its empty line; `body` has no chunk frames."""

    head: bytes
    body: bytes

    def framed(self) -> bytes:
        """Return the message with a Content-Length in place of chunks."""
        head = _FRAMING.sub(b"", self.head.removesuffix(_END))
        return head + b"\r\nContent-Length: %d" % len(self.body) + _END + self.body


class HttpProxy(TcpProxy):
    """A proxy of an HTTP server. The `operation` of a request is its request line without the version, and `target`
    its header X-Amz-Target. `requests` counts requests by target, or by operation if they have no target.
    """

    def __init__(self, loop: Loop, upstream: int, *, port: int = 0) -> None:
        self.requests: Counter[str] = Counter()
        super().__init__(loop, upstream, port=port)

    async def _converse(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        upstream: asyncio.StreamWriter,
    ) -> None:
        while True:
            request = await self._request(reader, writer)
            line = request.head[: request.head.index(b"\r\n")].decode("latin-1")
            target = _TARGET.search(request.head)
            self.requests[target[1].decode() if target else line.rpartition(" ")[0]] += 1
            fault = self._fault_for(
                Request(
                    operation=line.rpartition(" ")[0], target=target[1].decode() if target else "", body=request.body
                )
            )
            action = fault.action if fault is not None else None
            match action:
                case Answer():
                    writer.write(_canned(action))
                    await writer.drain()
                    continue
                case Delay(seconds):
                    await asyncio.sleep(seconds)
                case Cut():
                    raise Discarded
                case Hold() if fault is not None:
                    await fault.held()
            upstream.write(request.framed() if request.body else request.head)
            await upstream.drain()
            answer = await self._answer(there, head_only=line.startswith("HEAD "))
            match action:
                case DropAnswer():
                    raise Discarded
                case HoldAnswer() if fault is not None:
                    await fault.held()
                case Edit(change):
                    answer = _Message(answer.head, change(answer.body))
            bodiless = line.startswith("HEAD ") or answer.head.split(b" ", 2)[1] in _NO_BODY
            writer.write(answer.head if bodiless else answer.framed())
            await writer.drain()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> _Message:
        head = await reader.readuntil(_END)
        if _EXPECT.search(head):
            writer.write(b"HTTP/1.1 100 Continue" + _END)
            head = _EXPECT.sub(b"", head)
        return _Message(head, await _body(head, reader))

    async def _answer(self, reader: asyncio.StreamReader, *, head_only: bool) -> _Message:
        head = await reader.readuntil(_END)
        if head_only or head.split(b" ", 2)[1][:3] in _NO_BODY:
            return _Message(head, b"")
        return _Message(head, await _body(head, reader))


async def _body(head: bytes, reader: asyncio.StreamReader) -> bytes:
    if _CHUNKED.search(head):
        body = b""
        while size := int((await reader.readline()).split(b";")[0], 16):
            body += await reader.readexactly(size)
            await reader.readline()
        while (await reader.readline()).strip():
            pass
        return body
    length = _LENGTH.search(head)
    return await reader.readexactly(int(length[1])) if length else b""


def _canned(answer: Answer) -> bytes:
    head = f"HTTP/1.1 {answer.status} Fault\r\nContent-Type: {answer.kind}\r\n"
    return head.encode() + b"Content-Length: %d" % len(answer.body) + _END + answer.body

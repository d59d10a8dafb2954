"""Parses HTTP/1.1 responses, and has the errors of requests without one.

It is masscomm's only module with hand-written HTTP. Two clients use it, because the HTTP clients of libraries take more
of the processor: masscomm/aws/async_http.py for providers, masscomm/aws/pooled_http.py for DynamoDB and OpenSearch.
Answers have a length, are in chunks, or end with their connection.

Source: RFC 9112, "HTTP/1.1", sections 6 and 7 (message body length, chunked transfer coding) and 9 (connections).
"""

import re

_MAX_HEAD_BYTES = 65_536
_MAX_BODY_BYTES = 4_000_000
_FRAMING = re.compile(rb"\r\n(content-length|transfer-encoding|connection)[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)
_STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})(?: [^\r\n]*)?(?:\r\n|$)")
_LENGTH = re.compile(rb"\d{1,15}")
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;.*)?")


class NotSent(Exception):
    """The request was not sent: there is no connection, or no time remained."""


class ConnectTimeout(NotSent):
    """No connection was made in time, or no time remained for the request."""


class TlsRefused(NotSent):
    """The TLS handshake failed, for example because the server's certificate is invalid."""


class AnswerLost(Exception):
    """The request was sent, at least in part, and no whole answer arrived: the server may have acted on it."""


class AnswerTimeout(AnswerLost):
    """No whole answer arrived in time."""


class Malformed(Exception):
    """The answer is not HTTP/1.1, or is too large."""


class AnswerReader:
    """Parses one HTTP response from the pieces of data as they arrive.

    Args:
        most_bytes: The size limit of the body.
    """

    def __init__(self, most_bytes: int = _MAX_BODY_BYTES) -> None:
        self.status = 0
        # The status line and the headers, once they have arrived.
        self.head = b""
        self.body = b""
        # Whether the connection may be used for another request.
        self.reusable = False
        self._most_bytes = most_bytes
        self._buffer = bytearray()
        self._chunks = bytearray()
        self._in_body = False
        self._chunked = False
        # The body's length in bytes. None: the body is chunked, or ends with the connection.
        self._length: int | None = None

    def feed(self, data: bytes) -> bool:
        """Add a piece of the response; return whether the response is complete. Raises Malformed."""
        self._buffer += data
        if not self._in_body and not self._read_head():
            return False
        if self._chunked:
            return self._read_chunks()
        if len(self._buffer) > self._most_bytes:
            raise Malformed("the answer is too large")
        if self._length is None or len(self._buffer) < self._length:
            return False
        self._finish(bytes(self._buffer[: self._length]), len(self._buffer) - self._length)
        return True

    def end(self) -> bool:
        """Handle the end of the connection; return whether the response is complete."""
        if not self._in_body or self._chunked or self._length is not None:
            return False
        self._finish(bytes(self._buffer), 1)
        return True

    def _finish(self, body: bytes, surplus: int) -> None:
        self.body = body
        # Surplus bytes belong to no request: if the connection were reused, the next request could read them as its
        # response.
        self.reusable = self.reusable and surplus == 0

    def _read_head(self) -> bool:
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > _MAX_HEAD_BYTES:
                    raise Malformed("the head of the answer is too large")
                return False
            head = bytes(self._buffer[:end])
            del self._buffer[: end + 4]
            line = _STATUS.match(head)
            if line is None:
                raise Malformed("the answer is not HTTP/1.1")
            self.status = int(line[2])
            if self.status >= 200:
                break
            if self.status == 101:
                raise Malformed("the server switches protocols")
        self._in_body = True
        self.head = head
        self._read_framing(head, is_persistent=line[1] == b"1")
        return True

    def _read_framing(self, head: bytes, *, is_persistent: bool) -> None:
        lengths: set[bytes] = set()
        for name, value in _FRAMING.findall(head):
            match name.lower():
                case b"content-length":
                    lengths.update(part.strip() for part in value.split(b","))
                case b"transfer-encoding":
                    if value.strip().lower() != b"chunked":
                        raise Malformed("an unknown transfer coding")
                    self._chunked = True
                case _:
                    options = {option.strip().lower() for option in value.split(b",")}
                    is_persistent = (is_persistent or b"keep-alive" in options) and b"close" not in options
        if self.status in (204, 304):
            self._chunked, self._length = False, 0
        elif lengths and not self._chunked:
            if len(lengths) > 1 or not _LENGTH.fullmatch(text := lengths.pop()):
                raise Malformed("an invalid length")
            self._length = int(text)
        # If a response has both a Content-Length and chunks, the connection is closed after it (RFC 9112, 6.1).
        self.reusable = is_persistent and (self._length is not None or (self._chunked and not lengths))

    def _read_chunks(self) -> bool:
        while True:
            end = self._buffer.find(b"\r\n")
            if end < 0:
                if len(self._buffer) > _MAX_HEAD_BYTES:
                    raise Malformed("an invalid chunk")
                return False
            size_line = _CHUNK_SIZE.fullmatch(bytes(self._buffer[:end]))
            if size_line is None:
                raise Malformed("an invalid chunk")
            size = int(size_line[1], 16)
            if size == 0:
                return self._read_trailers(end + 2)
            if len(self._chunks) + size > self._most_bytes:
                raise Malformed("the answer is too large")
            if len(self._buffer) < end + 2 + size + 2:
                return False
            if self._buffer[end + 2 + size : end + 4 + size] != b"\r\n":
                raise Malformed("an invalid chunk")
            self._chunks += self._buffer[end + 2 : end + 2 + size]
            del self._buffer[: end + 4 + size]

    def _read_trailers(self, start: int) -> bool:
        """Skip the trailer fields after the last chunk; an empty line ends them."""
        if self._buffer[start : start + 2] == b"\r\n":
            end = start + 2
        else:
            end = self._buffer.find(b"\r\n\r\n", start) + 4
            if end < 4:
                if len(self._buffer) > _MAX_HEAD_BYTES:
                    raise Malformed("the trailers are too large")
                return False
        self._finish(bytes(self._chunks), len(self._buffer) - end)
        return True

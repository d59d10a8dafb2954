"""An HTTP client over urllib3 with the interface of masscomm/aws/pooled_http.py. Both pass the same contract tests.

urllib3's time-outs limit single socket operations; it has no limit for a whole call.
"""

import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

import urllib3
from urllib3 import exceptions
from urllib3.util import SKIP_HEADER

from masscomm.aws.http_answer import AnswerLost, AnswerTimeout, ConnectTimeout, NotSent, TlsRefused

# urllib3 adds these headers to a request after it has been signed.
_ADDED = dict.fromkeys(("user-agent", "accept-encoding"), SKIP_HEADER)


class Urllib3Http:
    """PooledHttp over urllib3."""

    def __init__(self, url: str, *, connect_s: float, read_s: float, total_s: float, connections: int) -> None:
        del total_s
        parts = urlsplit(url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._pools = urllib3.PoolManager(
            maxsize=connections,
            timeout=urllib3.Timeout(connect=connect_s, read=read_s),
            # urllib3 must not repeat a request: the caller does.
            retries=False,
            socket_options=[
                (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
                (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            ],
        )

    def request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes = b"", *, until: float | None = None
    ) -> tuple[int, bytes]:
        del until
        sent = dict(headers) | _ADDED
        try:
            answer = self._pools.urlopen(method, self._origin + target, body=body or None, headers=sent, redirect=False)
        except exceptions.NewConnectionError as error:  # In urllib3 it is a ConnectTimeoutError.
            raise NotSent(str(error)) from error
        except exceptions.ConnectTimeoutError as error:
            raise ConnectTimeout(str(error)) from error
        except exceptions.SSLError as error:
            raise TlsRefused(str(error)) from error
        except exceptions.ReadTimeoutError as error:
            raise AnswerTimeout(str(error)) from error
        except exceptions.HTTPError as error:
            raise AnswerLost(f"{type(error).__name__}: {error}") from error
        return answer.status, answer.data

    def close(self) -> None:
        self._pools.clear()

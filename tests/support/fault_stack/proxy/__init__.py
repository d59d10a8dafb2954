"""Proxies that disturb connections when a test requests it, as networks and servers do.

    with Loop() as loop:
        opensearch = HttpProxy(loop, upstream_port)          # also KafkaProxy, TcpProxy
        opensearch.port                                      # the address for the functions

        with opensearch.fault(Answer(status=429, body=…), when=path("/_mget"), times=3) as fault:
            …
            fault.hits                                       # number of affected requests

        with kafka.fault(Hold(), when=produce_to("outcome")) as fault:
            fault.await_hits(1)                              # the proxy holds the request
            …                                                # kill a process
            fault.discard()                                  # the request never arrives

        with dynamodb.down(): …                              # every connection is cut, none is accepted

A fault ends with its block, and the requests that it held continue. Faults are tried in the order of their creation.
"""

from tests.support.fault_stack.proxy.faults import (
    Action,
    Answer,
    Cut,
    Delay,
    DropAnswer,
    Edit,
    Fault,
    Hold,
    HoldAnswer,
    Request,
)
from tests.support.fault_stack.proxy.http import HttpProxy
from tests.support.fault_stack.proxy.kafka import PRODUCE, KafkaProxy, produce_to
from tests.support.fault_stack.proxy.loop import Loop
from tests.support.fault_stack.proxy.tcp import TcpProxy

__all__ = [
    "PRODUCE",
    "Action",
    "Answer",
    "Cut",
    "Delay",
    "DropAnswer",
    "Edit",
    "Fault",
    "Hold",
    "HoldAnswer",
    "HttpProxy",
    "KafkaProxy",
    "Loop",
    "Request",
    "TcpProxy",
    "produce_to",
]

"""Proxies that do to a connection what networks and servers do, when a test says so.

    with Loop() as loop:
        opensearch = HttpProxy(loop, upstream_port)          # also KafkaProxy, TcpProxy
        opensearch.port                                      # what the functions are given as address
        with opensearch.fault(Answer(status=429, body=…), when=path("/_mget"), times=3) as fault:
            …
            fault.hits                                       # how many requests it was done to
        with kafka.fault(Hold(), when=produce_to("outcome")) as fault:
            fault.await_hits(1)                              # the request stands in the proxy
            …                                                # kill somebody
            fault.discard()                                  # and it never arrives
        with dynamodb.down(): …                              # every connection is cut, none is taken

A fault ends with its block; what it held then goes on. Faults are looked at in the order in which they came.
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

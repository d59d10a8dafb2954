"""The demo: real notifications through the whole stack, every figure checked against an oracle.

`from devstack.demo import run_demo`: what `masscomm demo`, `make run` and `make demo` call.
"""

from devstack.demo.run import run_demo

__all__ = ["run_demo"]

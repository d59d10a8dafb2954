"""The demo: real notifications through the whole stack, every figure checked against an oracle.

`masscomm demo`, `make run` and `make demo` call `run_demo`.
"""

from devstack.demo.run import run_demo

__all__ = ["run_demo"]

"""The demo: it sends real notifications through the whole stack, and checks every figure against an oracle (an
independent computation of the expected results).

`masscomm demo`, `make run` and `make demo` call `run_demo`.
"""

from local.devstack.demo.run import run_demo

__all__ = ["run_demo"]

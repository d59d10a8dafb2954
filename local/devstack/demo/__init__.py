"""The demo: it sends real notifications through the whole stack, and checks every figure against an oracle (an
independent computation of the expected results).

`masscomm demo` and `make demo` call `run.run_demo`.
"""

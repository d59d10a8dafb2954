"""Configuration of one function in the host."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

REGION = "us-east-1"
ACCOUNT = "000000000000"


@dataclass(frozen=True, kw_only=True)
class FunctionSpec:
    """One deployed function.

    Args:
        name: unique in a host; the function's name as in Lambda.
        handler: module path and attribute, `functions.echo.handler.handler`.
        task_root: folder the module is imported from; working directory of the process, LAMBDA_TASK_ROOT.
        timeout_s: seconds an invocation may take before its environment is killed.
        init_timeout_s: seconds from process start to the first request for work. Lambda grants 10 and then starts again
            within the function's timeout; a machine that starts everything at once needs more.
        memory_mb: passed to the function, not enforced.
        concurrency: most environments, and so invocations, at a time; further invocations queue in order.
        warm: environments started with the host rather than by the first invocations.
        nice: niceness of its processes, for when processors are short.
        environment: variables of the function's own.
        python: the interpreter; awslambdaric must be importable in it.

    Source: AWS documentation, "Understanding the Lambda execution environment lifecycle" and "Lambda quotas".
    """

    name: str
    handler: str
    task_root: Path
    timeout_s: float = 3.0
    init_timeout_s: float = 10.0
    memory_mb: int = 128
    concurrency: int = 1
    warm: int = 0
    nice: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ValueError(f"function {self.name}: concurrency must be at least 1, not {self.concurrency}")
        if not 0 <= self.warm <= self.concurrency:
            raise ValueError(f"function {self.name}: warm must be between 0 and its concurrency, not {self.warm}")

    @property
    def arn(self) -> str:
        """The function's name in full, as Lambda-Runtime-Invoked-Function-Arn and on-failure records carry it."""
        region = self.environment.get("AWS_REGION", REGION)
        return f"arn:aws:lambda:{region}:{ACCOUNT}:function:{self.name}"

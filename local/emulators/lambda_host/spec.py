"""The configuration of one function in the function host."""

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
        name: The function's name as in Lambda; it is unique in a host.
        handler: The module path and the attribute of the handler, such as `functions.echo.handler.handler`.
        task_root: The folder from which the module is imported. It is the working directory of the process, and
            LAMBDA_TASK_ROOT.
        timeout_s: The seconds after which the environment of an invocation is killed.
        init_timeout_s: The seconds from the start of the process until it must request its first invocation. Lambda
            grants 10 and then starts again within the function's timeout; a machine that starts everything at once
            needs more.
        memory_mb: The memory in MB; it is passed to the function but not enforced.
        concurrency: The maximum number of environments, and so of concurrent invocations; further invocations wait in
            order.
        warm: The number of environments that are started with the host and not by the first invocations.
        nice: The niceness of the function's processes, from their first response on.
        environment: The environment variables of the function.
        python: The path of the Python interpreter, which must be able to import awslambdaric.

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
        """Return the ARN of the function, for the header Lambda-Runtime-Invoked-Function-Arn and on-failure records."""
        region = self.environment.get("AWS_REGION", REGION)
        return f"arn:aws:lambda:{region}:{ACCOUNT}:function:{self.name}"

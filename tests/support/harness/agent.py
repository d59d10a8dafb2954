"""An agent that calls the tools of `masscomm-mcp` over its protocol: on standard input and output, or in memory."""

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import TextContent

from masscomm_client import AsyncClient
from masscomm_client.mcp_tools import serving


class Agent:
    """Calls the tools of a server, and keeps everything that it returned."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.texts: list[str] = []

    async def text(self, tool: str, *, fails: bool = False, **arguments: Any) -> str:
        """Return the text of a tool's result, which is an error if it `fails`."""
        result = await self.client.call_tool(tool, arguments)
        (content,) = result.content
        assert isinstance(content, TextContent)
        self.texts.append(content.text)
        assert bool(result.is_error) is fails, content.text
        return content.text

    async def ask(self, tool: str, **arguments: Any) -> Any:
        return json.loads(await self.text(tool, **arguments))


@asynccontextmanager
async def agent(url: str, *arguments: str, key: str, log: Path | None = None) -> AsyncIterator[Agent]:
    """Start the server as an agent does, and connect to it.

    Args:
        log: The file of the server's standard error; None: that of the tests.
    """
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "masscomm_client.mcp", *arguments],
        env={"MASSCOMM_API_URL": url, "MASSCOMM_API_KEY": key, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with open(log or os.devnull, "w") as errors:
        async with Client(stdio_client(server, errlog=errors)) as client:
            yield Agent(client)


@asynccontextmanager
async def agent_in_memory(url: str, *, key: str, max_recipients: int = 0) -> AsyncIterator[Agent]:
    """Connect to the tools in this process. A process takes a second and a half of processor time to start."""
    async with AsyncClient(url, key=key) as api, Client(serving(api, max_recipients=max_recipients)) as client:
        yield Agent(client)

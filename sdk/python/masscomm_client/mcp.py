"""The command `masscomm-mcp`: it serves an agent over the Model Context Protocol, on standard input and output.

MASSCOMM_API_URL is the address of the API and MASSCOMM_API_KEY the key, whose scopes and tenants hold for every tool.
The command needs the extra `mcp`: `pip install "masscomm-client[mcp]"`.
"""

import argparse
import asyncio
import os

from .asynchronous import AsyncClient

VARIABLES = ("MASSCOMM_API_URL", "MASSCOMM_API_KEY")


def main() -> None:
    """Serve until standard input ends. Exit status 2 if an argument, a variable or the package `mcp` is missing."""
    parser = argparse.ArgumentParser(prog="masscomm-mcp", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--allow-send", action="store_true", help="offer a tool that sends; without it, none does")
    parser.add_argument(
        "--max-recipients",
        type=int,
        default=100,
        metavar="N",
        help="with --allow-send, the recipients of all sends until the server ends; by default 100",
    )
    arguments = parser.parse_args()
    if missing := [name for name in VARIABLES if not os.environ.get(name)]:
        parser.error(f"set {' and '.join(missing)} in the environment")
    try:
        from .mcp_tools import serving
    except ModuleNotFoundError as error:
        if error.name != "mcp":
            raise
        parser.error('install the server with: pip install "masscomm-client[mcp]"')
    url, key = (os.environ[name] for name in VARIABLES)
    most = arguments.max_recipients if arguments.allow_send else 0

    async def serve() -> None:
        async with AsyncClient(url, key=key) as api:
            await serving(api, max_recipients=most).run_stdio_async()

    asyncio.run(serve())


if __name__ == "__main__":
    main()

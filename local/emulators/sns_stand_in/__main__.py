"""`python -m local.emulators.sns_stand_in [--port N] [--log FILE] [--any-endpoint]`: serves until it is stopped."""

import argparse
import asyncio
import contextlib
import signal
import sys
from pathlib import Path

from local.emulators.local import LOOPBACK
from local.emulators.sns_stand_in.server import serve


async def _main(arguments: argparse.Namespace) -> None:
    serving = asyncio.ensure_future(
        serve(
            LOOPBACK,
            arguments.port,
            log=arguments.log,
            any_endpoint=arguments.any_endpoint,
            listening=lambda port: print(port, flush=True),
        )
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def main() -> int:
    """Serve until the process is stopped; print the port once the server listens. Return 1 if the port cannot be
    used.
    """
    parser = argparse.ArgumentParser(prog="python -m local.emulators.sns_stand_in", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: a free one, which is printed")
    parser.add_argument("--log", type=Path, help="a file to which every accepted publish is appended, as JSON")
    parser.add_argument(
        "--any-endpoint", action="store_true", help="accept messages to endpoints that were never created"
    )
    try:
        asyncio.run(_main(parser.parse_args()))
    except OSError as error:
        print(f"the SNS stand-in could not start: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

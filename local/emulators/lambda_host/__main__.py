"""`python -m local.emulators.lambda_host --config FILE`: runs the functions, their triggers and their HTTP gateway
until SIGTERM.

Only this module of the package imports local.emulators.serverless.
"""

import argparse
import asyncio
import json
import logging
import sys
from pathlib import Path

from masscomm.untrusted import mask_root_logger


def main() -> int:
    """Read the arguments and serve until SIGTERM. Return 1 if a port is in use or the configuration is invalid."""
    from local.emulators.serverless import read_config, serve

    parser = argparse.ArgumentParser(prog="python -m local.emulators.lambda_host", description=__doc__)
    parser.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="JSON, see local.emulators.serverless"
    )
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    mask_root_logger()
    try:
        config = read_config(json.loads(arguments.config.read_text()))
        asyncio.run(serve(config))
    except (OSError, ValueError) as error:
        print(f"the function host could not start: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

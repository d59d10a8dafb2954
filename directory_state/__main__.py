"""`python -m directory_state` starts the service."""

import sys

from directory_state.processes import main

if __name__ == "__main__":
    sys.exit(main())

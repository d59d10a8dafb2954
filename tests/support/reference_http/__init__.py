"""HTTP clients over well-known libraries, with which our own clients are compared."""

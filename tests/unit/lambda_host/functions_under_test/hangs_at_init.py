"""A function whose module never finishes its import."""

import time

while True:
    time.sleep(3600)

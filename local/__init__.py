"""The whole system on one machine: the stack, and the stand-ins for AWS services."""

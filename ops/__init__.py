"""What an operator runs: provisioning, the erasure of a person, the description of the API."""

"""Addresses and identifiers that every local emulator uses."""

LOOPBACK = "127.0.0.1"
REGION = "us-east-1"
ACCOUNT = "000000000000"

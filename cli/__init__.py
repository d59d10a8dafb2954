"""The `masscomm` command. Only commands that drive the stack of this machine import `local`, when they are called."""

"""Operations on an installation, which the operations_handler function and the `masscomm` command share."""

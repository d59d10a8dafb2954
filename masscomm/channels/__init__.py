"""The channels: the format of a message for each, and the errors of the providers."""

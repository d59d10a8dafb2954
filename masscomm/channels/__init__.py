"""The channels: how a message is shaped for each, and what a provider may answer."""

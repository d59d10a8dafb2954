"""The format of the messages of each channel (push, e-mail), and the clients and errors of the providers."""

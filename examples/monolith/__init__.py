"""The monolith: a customer of the notification service, with its own tables, seed data and emitter."""

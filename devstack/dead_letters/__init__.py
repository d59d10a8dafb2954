"""What operations do with the dead-letter topic: read it, send a record back to its source, write one off."""

"""Operations on the dead-letter topic: read it, replay a record to its source topic, discard a record."""

"""Operations on dead letters (records of the dead-letter topic): list them, replay one to its source topic, discard
one.
"""

"""A copy of the directory (users, settings, devices, templates and masscomm's own documents) that is fed from compacted
topics and answers look-ups from memory.

`python -m directory_state` starts the processes: some feed the store from Kafka (feed.py), one answers requests
(server.py). All of them share one LMDB file (store.py). masscomm.directory.state reads from it.
"""

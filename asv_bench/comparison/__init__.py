"""How kafkalog is compared with other readers.

Each reader lives in a process of its own (`readers` for Python, `java/PeerWorker.java` for Java; `workers` starts
them and asks), prepares what it reads, and keeps time itself. The rounds are interleaved (A B C, A B C, …), so that a
machine that slows down slows everyone, and the best round of each counts (`rounds`). `goals` says which readings are
set against which, and what ratio is wanted; `report` prints it.
"""

"""The inspector: a data directory of Kafka, a partition or a segment file, browsed in the terminal while it grows.

    kafkalog ─ reading/ ─ model.py ─┬─ headless.py            no Textual up to here
                                    └─ app.py ─ screens/ ─ widgets/

Read-only, always: nothing here writes, creates or locks anything.
"""

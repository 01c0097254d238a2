"""The inspector: a data directory of Kafka, a partition or a segment file, browsed in the terminal while it grows.

    kafkalog ─ model/ ─ jobs/ ─┬─ headless.py                 no Textual up to here
                               └─ session.py ─ widgets/ ─ views/ ─ partition/ ─ screens/ ─ app.py

Each imports only what is before it. Imports inside the package are relative.

Read-only, always: nothing here writes, creates or locks anything.
"""

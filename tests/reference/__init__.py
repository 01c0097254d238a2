"""The kernels again, in Python that is written to be read.

What a kernel promises (DESIGN.md, "The kernel contract") is stated here in the fewest steps that say it: the
specification, and the other side of every equivalence test. Nothing here is fast, and nothing here imports kafkalog: a
twin that shared code with what it checks would share its mistakes.

    codes          what a scan stopped at, and what a decoder found wrong
    cursor         a place in a buffer and the end it must not pass; varints
    framing        the header table: HEADER_DTYPE, scan_headers
    records        the records of a v2 batch
    message_set    the messages of a v0/v1 entry; decode_batches, find_record
    output_stream  the stream of linked segments, and what is reserved in it
    compression    the codecs, with no limit and no mercy
    regions        where the records of each entry lie, for tests that start from a file's bytes
    encode         the way back: records to bytes, right by default, wrong on request
"""

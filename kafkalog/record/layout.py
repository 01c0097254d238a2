"""The layout of log entries, as a table for Python: positions of the fields in bytes, and smallest sizes.

    every entry     0 offset int64 | 8 size int32, of what follows | 16 magic int8
    v0, v1 message  12 crc uint32 | 16 magic | 17 attributes int8 | v1: 18 timestamp int64 |
                    key length int32, key | value length int32, value
    v2 batch        0 base offset | 8 length | 12 partition leader epoch int32 | 16 magic | 17 crc uint32 |
                    21 attributes int16 | 23 last offset delta int32 | 27 base timestamp int64 |
                    35 max timestamp int64 | 43 producer id int64 | 51 producer epoch int16 | 53 base sequence int32 |
                    57 records count int32 | 61 records

`_speedups/layout.pxd` is the same table for the kernels; a test compares them. The bits of the attributes, except those
of the codec, are in `kafkalog.attributes`; the limits of integers are in `_speedups.arguments`.
Source: clients/.../common/record/{Records,LegacyRecord,DefaultRecordBatch,RecordBatch}.java.
"""

SIZE_AT = 8
LOG_OVERHEAD = 12
MAGIC_AT = 16
HEADER_SIZE_UP_TO_MAGIC = 17

MESSAGE_CRC_AT = 12
MESSAGE_CRC_FROM = 16
MESSAGE_ATTRIBUTES_AT = 17
MESSAGE_TIMESTAMP_AT = 18
# The position of the key's length, by magic; the same in a wrapper.
MESSAGE_KEY_AT = (18, 26)
# The size field of the smallest message, and the size in bytes of the smallest entry.
RECORD_OVERHEAD_V0 = 14
SMALLEST_ENTRY = LOG_OVERHEAD + RECORD_OVERHEAD_V0

BATCH_LEADER_EPOCH_AT = 12
BATCH_CRC_AT = 17
BATCH_CRC_FROM = 21
BATCH_ATTRIBUTES_AT = 21
BATCH_LAST_OFFSET_DELTA_AT = 23
BATCH_BASE_TIMESTAMP_AT = 27
BATCH_MAX_TIMESTAMP_AT = 35
BATCH_PRODUCER_ID_AT = 43
BATCH_PRODUCER_EPOCH_AT = 51
BATCH_BASE_SEQUENCE_AT = 53
BATCH_RECORDS_COUNT_AT = 57
RECORD_BATCH_OVERHEAD = 61

CODEC_MASK = 0x07

# The value of the timestamp field of a record without a timestamp.
NO_TIMESTAMP = -1

# The position of each field in a log entry, in bytes from the start of the entry. Decoders and encoders use the same
# constants.
#
#   every entry     0 offset int64 | 8 size int32 (bytes after this field) | 16 magic int8
#   v0, v1 message  12 crc uint32 | 16 magic | 17 attributes int8 | v1: 18 timestamp int64 |
#                   key length int32, key, value length int32, value
#   v2 batch        0 base offset | 8 length | 12 partition leader epoch int32 | 16 magic | 17 crc uint32 |
#                   21 attributes int16 | 23 last offset delta int32 | 27 base timestamp int64 |
#                   35 max timestamp int64 | 43 producer id int64 | 51 producer epoch int16 | 53 base sequence int32 |
#                   57 records count int32 | 61 records
#
# Source: clients/.../common/record/{Records,LegacyRecord,DefaultRecordBatch}.java; the v2 CRC covers byte 21 to the
# end, the v0/v1 CRC byte 16 to the end.

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint32_t

cdef enum:
    SIZE_AT = 8
    LOG_OVERHEAD = 12
    MAGIC_AT = 16
    HEADER_SIZE_UP_TO_MAGIC = 17
    RECORD_OVERHEAD_V0 = 14

    MESSAGE_CRC_AT = 12
    MESSAGE_CRC_FROM = 16
    MESSAGE_ATTRIBUTES_AT = 17
    MESSAGE_TIMESTAMP_AT = 18

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
    LOG_APPEND_TIME_BIT = 0x08
    CONTROL_BIT = 0x20
    DELETE_HORIZON_BIT = 0x40

    LOG_APPEND_TIME = 1

# A row of the header table: the fields of HEADER_DTYPE in header_table.pyx, in the same order.
cdef struct Header:
    int64_t position
    int64_t base_offset
    int64_t last_offset
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int32_t size_in_bytes
    int32_t partition_leader_epoch
    int32_t base_sequence
    int32_t records_count
    uint32_t checksum
    int16_t attributes
    int16_t producer_epoch
    int8_t magic
    int8_t compression_type
    int8_t timestamp_type
    int8_t reserved

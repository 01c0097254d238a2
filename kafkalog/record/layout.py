"""Where the fields of a log entry lie, in bytes from its first: what Python needs of `_speedups/layout.pxd`.

That file has the whole table, under the same names; only `MESSAGE_KEY_AT` is not there.
"""

# every entry: offset int64 | size int32, of what follows | ...
SIZE_AT = 8
LOG_OVERHEAD = 12
MAGIC_AT = 16

# v0, v1 message: crc | magic | attributes | v1: timestamp | key length, key | value length, value
MESSAGE_CRC_AT = 12
MESSAGE_CRC_FROM = 16
MESSAGE_ATTRIBUTES_AT = 17
MESSAGE_TIMESTAMP_AT = 18
# The length of the key, by magic; of a wrapper too.
MESSAGE_KEY_AT = {0: 18, 1: 26}
# The size of the smallest message.
RECORD_OVERHEAD_V0 = 14

# v2 batch: leader epoch | magic | crc | attributes | ... | largest timestamp | ... | records
BATCH_LEADER_EPOCH_AT = 12
BATCH_CRC_AT = 17
BATCH_CRC_FROM = 21
BATCH_ATTRIBUTES_AT = 21
BATCH_MAX_TIMESTAMP_AT = 35
RECORD_BATCH_OVERHEAD = 61

# The bits of the attributes that name the codec; the others are in `kafkalog.attributes`.
CODEC_MASK = 0x07

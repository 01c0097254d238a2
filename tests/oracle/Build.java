import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Build CASES OUT: what Kafka's MemoryRecordsBuilder makes of records.
 *
 * CASES has a line of JSON a case: the builder's settings by name, and "records": [[offset, timestamp, key, value, [[header key, value], ...]],
 * ...], bytes in base64. OUT gets the length of each result, 4 bytes, and the result.
 */
public class Build {
  static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    try (DataOutputStream out = new DataOutputStream(new FileOutputStream(arguments[1]))) {
      for (String line : Files.readAllLines(Paths.get(arguments[0]))) {
        ByteBuffer built = build(JSON.readTree(line));
        byte[] bytes = new byte[built.remaining()];
        built.get(bytes);
        out.writeInt(bytes.length);
        out.write(bytes);
      }
    }
  }

  static ByteBuffer build(JsonNode with) throws IOException {
    JsonNode horizon = with.get("delete_horizon_ms");
    boolean isControl = with.get("is_control").asBoolean();
    MemoryRecordsBuilder builder = new MemoryRecordsBuilder(new ByteBufferOutputStream(1024), (byte) with.get("magic").asInt(),
        Compression.of(CompressionType.forId(with.get("compression_type").asInt())).build(), timestampType(with.get("timestamp_type").asInt()),
        with.get("base_offset").asLong(), with.get("log_append_time").asLong(), with.get("producer_id").asLong(),
        (short) with.get("producer_epoch").asInt(), with.get("base_sequence").asInt(), with.get("is_transactional").asBoolean(), isControl,
        with.get("partition_leader_epoch").asInt(), Integer.MAX_VALUE, horizon.isNull() ? -1 : horizon.asLong());
    for (JsonNode each : with.get("records")) {
      SimpleRecord record = new SimpleRecord(each.get(1).asLong(), bytes(each.get(2)), bytes(each.get(3)), headers(each.get(4)));
      if (isControl) builder.appendControlRecordWithOffset(each.get(0).asLong(), record);
      else builder.appendWithOffset(each.get(0).asLong(), record);
    }
    return builder.build().buffer();
  }

  static TimestampType timestampType(int id) {
    for (TimestampType type : TimestampType.values()) if (type.id == id) return type;
    throw new IllegalArgumentException("timestamp type " + id);
  }

  static Header[] headers(JsonNode pairs) throws IOException {
    List<Header> headers = new ArrayList<>();
    for (JsonNode pair : pairs) headers.add(new RecordHeader(pair.get(0).asText(), bytes(pair.get(1))));
    return headers.toArray(new Header[0]);
  }

  static byte[] bytes(JsonNode text) throws IOException {
    return text.isNull() ? null : text.binaryValue();
  }
}

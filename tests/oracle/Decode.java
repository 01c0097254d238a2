import java.io.File;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Base64;
import java.util.Iterator;
import java.util.List;
import java.util.StringJoiner;
import java.util.TreeSet;
import java.util.function.Supplier;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;

/**
 * Decode PACK PARTS OUT: what Kafka's own classes read in each part of a file that holds many logs one after the other.
 *
 * PARTS has a line a part, "file|memory|search START SIZE": read as FileRecords reads a segment, or as MemoryRecords reads a response. OUT gets
 * a line of JSON a part: {"batches": [...], "error": null or what ended the iteration}. A batch has its fields, "valid" (null or what
 * ensureValid said), and its records up to "error", what ended those (null: nothing did). A field that cannot be had is an error in its place:
 * {"error": class, "message": text}. Bytes are base64.
 *
 * A search gives {"offsets": [[target, [base offset, position, size]], ...], "timestamps": [[target, starting offset, [timestamp, offset,
 * leader epoch]], ...]} in place of batches: what FileRecords finds for the offsets and timestamps of its own batches, and those beside them.
 */
public class Decode {
  static final Base64.Encoder BASE64 = Base64.getEncoder();

  public static void main(String[] arguments) throws Exception {
    File pack = new File(arguments[0]);
    byte[] bytes = Files.readAllBytes(pack.toPath());
    Path out = Paths.get(arguments[2]);
    try (FileRecords file = FileRecords.open(pack, false); PrintStream lines = new PrintStream(out.toFile(), StandardCharsets.UTF_8)) {
      for (String line : Files.readAllLines(Paths.get(arguments[1]))) {
        String[] part = line.split(" ");
        int start = Integer.parseInt(part[1]);
        int size = Integer.parseInt(part[2]);
        if (part[0].equals("search")) {
          lines.println(search(file.slice(start, size), start));
        } else if (part[0].equals("file")) {
          lines.println(decode(file.slice(start, size).batches(), start));
        } else {
          ByteBuffer slice = ByteBuffer.wrap(bytes, start, size).slice();
          lines.println(decode(MemoryRecords.readableRecords(slice).batches(), 0));
        }
      }
    }
  }

  static String decode(Iterable<? extends RecordBatch> batches, int start) {
    StringBuilder json = new StringBuilder("{\"batches\":[");
    String error = "null";
    try {
      String comma = "";
      long position = 0;
      for (Iterator<? extends RecordBatch> all = batches.iterator(); all.hasNext(); comma = ",") {
        RecordBatch batch = all.next();
        if (batch instanceof FileChannelRecordBatch) position = ((FileChannelRecordBatch) batch).position() - start;
        json.append(comma);
        batch(json, batch, position);
        position += batch.sizeInBytes();
      }
    } catch (Throwable problem) {
      error = error(problem);
    }
    return json.append("],\"error\":").append(error).append('}').toString();
  }

  static String search(FileRecords file, int start) throws Exception {
    TreeSet<Long> offsets = new TreeSet<>(List.of(-1L, 0L, Long.MAX_VALUE));
    TreeSet<Long> timestamps = new TreeSet<>(offsets);
    for (FileChannelRecordBatch batch : file.batches()) {
      for (long d = -1; d <= 1; d++) offsets.addAll(List.of(batch.baseOffset() + d, batch.lastOffset() + d));
      for (long d = -1; d <= 1; d++) timestamps.add(batch.maxTimestamp() + d);
    }
    StringJoiner found = new StringJoiner(",", "{\"offsets\":[", "]");
    for (long target : offsets) {
      FileRecords.LogOffsetPosition at = file.searchForOffsetFromPosition(target, start);
      found.add("[" + target + "," + (at == null ? null : "[" + at.offset + "," + (at.position - start) + "," + at.size + "]") + "]");
    }
    StringJoiner foundTimes = new StringJoiner(",", ",\"timestamps\":[", "]}");
    for (long target : timestamps) {
      for (long from : offsets) {
        FileRecords.TimestampAndOffset at = file.searchForTimestamp(target, start, from);
        String answer = at == null ? null : "[" + at.timestamp + "," + at.offset + "," + at.leaderEpoch.orElse(null) + "]";
        foundTimes.add("[" + target + "," + from + "," + answer + "]");
      }
    }
    return found.toString() + foundTimes;
  }

  static void batch(StringBuilder json, RecordBatch b, long position) {
    json.append("{\"position\":").append(position);
    field(json, "size", b::sizeInBytes);
    field(json, "magic", b::magic);
    field(json, "base_offset", b::baseOffset);
    field(json, "last_offset", b::lastOffset);
    field(json, "count", b::countOrNull);
    field(json, "codec", () -> '"' + b.compressionType().name + '"');
    field(json, "timestamp_type", () -> '"' + b.timestampType().toString() + '"');
    field(json, "max_timestamp", b::maxTimestamp);
    field(json, "leader_epoch", b::partitionLeaderEpoch);
    field(json, "producer_id", b::producerId);
    field(json, "producer_epoch", b::producerEpoch);
    field(json, "base_sequence", b::baseSequence);
    field(json, "last_sequence", b::lastSequence);
    field(json, "transactional", b::isTransactional);
    field(json, "control", b::isControlBatch);
    field(json, "delete_horizon", () -> b.deleteHorizonMs().isPresent() ? b.deleteHorizonMs().getAsLong() : null);
    field(json, "crc", b::checksum);
    field(json, "valid", () -> { b.ensureValid(); return null; });
    records(json, b);
    json.append('}');
  }

  static void field(StringBuilder json, String name, Supplier<Object> value) {
    json.append(",\"").append(name).append("\":");
    try {
      json.append(value.get());
    } catch (Throwable problem) {
      json.append(error(problem));
    }
  }

  static void records(StringBuilder json, RecordBatch b) {
    json.append(",\"records\":[");
    String error = "null";
    String comma = "";
    try (CloseableIterator<Record> records = b.streamingIterator(BufferSupplier.NO_CACHING)) {
      for (; records.hasNext(); comma = ",") {
        String record = record(records.next());
        json.append(comma).append(record);
      }
    } catch (Throwable problem) {
      error = error(problem);
    }
    json.append("],\"error\":").append(error);
  }

  static String record(Record r) {
    StringBuilder json = new StringBuilder("[").append(r.offset()).append(',').append(r.timestamp()).append(',').append(r.sequence());
    json.append(',').append(bytes(r.key())).append(',').append(bytes(r.value())).append(",[");
    String comma = "";
    for (Header header : r.headers()) {
      json.append(comma).append('[').append(bytes(ByteBuffer.wrap(header.key().getBytes(StandardCharsets.UTF_8)))).append(',');
      json.append(header.value() == null ? "null" : bytes(ByteBuffer.wrap(header.value()))).append(']');
      comma = ",";
    }
    return json.append("]]").toString();
  }

  static String bytes(ByteBuffer buffer) {
    if (buffer == null) return "null";
    byte[] copy = new byte[buffer.remaining()];
    buffer.duplicate().get(copy);
    return '"' + BASE64.encodeToString(copy) + '"';
  }

  static String error(Throwable problem) {
    String text = String.valueOf(problem.getMessage()).replace("\\", "\\\\").replace("\"", "'").replaceAll("\\p{Cntrl}", " ");
    return "{\"error\":\"" + problem.getClass().getSimpleName() + "\",\"message\":\"" + text + "\"}";
  }
}

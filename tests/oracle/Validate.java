import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.Base64;
import java.util.StringJoiner;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.requests.ProduceResponse.RecordError;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Timer;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/**
 * Validate PACK CASES OUT: what Kafka's LogValidator makes of each part of a file that holds many message sets one after the other.
 *
 * CASES has a line a case: START SIZE FIRST_OFFSET NOW TARGET LEVEL COMPACTED MAGIC TIMESTAMP_TYPE BEFORE_MAX AFTER_MAX EPOCH ORIGIN; TARGET -1 is
 * the producer's codec, LEVEL "-" the codec's own. As in a log, a torn tail is cut off first, and the last compressed batch says what the source
 * codec is. OUT gets a line of JSON a case: what came out, its bytes in base64; or the error, with those of single records.
 */
public class Validate {
  static final TopicPartition PARTITION = new TopicPartition("topic", 0);
  static final LogValidator.MetricsRecorder NOTHING = new LogValidator.MetricsRecorder() {
    public void recordInvalidMagic() { }
    public void recordInvalidOffset() { }
    public void recordInvalidSequence() { }
    public void recordInvalidChecksums() { }
    public void recordNoKeyCompactedTopic() { }
  };

  record Clock(long milliseconds) implements Time {
    public long nanoseconds() { return 0; }
    public long hiResClockMs() { return milliseconds; }
    public void sleep(long ms) { }
    public void waitObject(Object object, java.util.function.Supplier<Boolean> condition, long deadline) { }
    public Timer timer(long timeout) { return Time.SYSTEM.timer(timeout); }
  }

  public static void main(String[] arguments) throws Exception {
    byte[] pack = Files.readAllBytes(Paths.get(arguments[0]));
    try (PrintStream lines = new PrintStream(Paths.get(arguments[2]).toFile(), StandardCharsets.UTF_8)) {
      for (String line : Files.readAllLines(Paths.get(arguments[1]))) {
        String[] words = line.split(" ");
        int start = Integer.parseInt(words[0]);
        byte[] data = Arrays.copyOfRange(pack, start, start + Integer.parseInt(words[1]));
        lines.println(answer(data, words));
      }
    }
  }

  static String answer(byte[] data, String[] words) {
    try {
      return validated(data, words);
    } catch (RecordValidationException problem) {
      StringJoiner errors = new StringJoiner(",", "[", "]");
      for (RecordError each : problem.recordErrors()) errors.add("[" + each.batchIndex + "," + quoted(each.message) + "]");
      return "{\"error\":\"RecordValidationException\",\"reason\":" + quoted(problem.invalidException().getClass().getSimpleName())
          + ",\"record_errors\":" + errors + "}";
    } catch (Throwable problem) {
      return "{\"error\":" + quoted(problem.getClass().getSimpleName()) + ",\"message\":" + quoted(problem.getMessage()) + "}";
    }
  }

  static String validated(byte[] data, String[] words) {
    MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(data));
    CompressionType source = CompressionType.NONE;
    int valid = 0;
    for (RecordBatch batch : records.batches()) {
      if (batch.compressionType() != CompressionType.NONE) source = batch.compressionType();
      valid += batch.sizeInBytes();
    }
    records = MemoryRecords.readableRecords(ByteBuffer.wrap(data, 0, valid).slice());
    long first = Long.parseLong(words[2]);
    PrimitiveRef.LongRef offsets = PrimitiveRef.ofLong(first);
    LogValidator validator = new LogValidator(records, PARTITION, new Clock(Long.parseLong(words[3])), source, target(words, source),
        Boolean.parseBoolean(words[6]), Byte.parseByte(words[7]), TimestampType.forName(words[8]), Long.parseLong(words[9]),
        Long.parseLong(words[10]), Integer.parseInt(words[11]), AppendOrigin.valueOf(words[12]));
    LogValidator.ValidationResult result = validator.validateMessagesAndAssignOffsets(offsets, NOTHING, BufferSupplier.create());
    return json(result, offsets.value - first);
  }

  static Compression target(String[] words, CompressionType source) {
    int id = Integer.parseInt(words[4]);
    CompressionType type = id < 0 ? source : CompressionType.forId(id);
    if (words[5].equals("-")) return Compression.of(type).build();
    int level = Integer.parseInt(words[5]);
    switch (type) {
      case GZIP: return Compression.gzip().level(level).build();
      case LZ4: return Compression.lz4().level(level).build();
      case ZSTD: return Compression.zstd().level(level).build();
      default: throw new IllegalStateException(type + " has no level");
    }
  }

  /** The offset that an index would be told with the largest timestamp: the last of the first batch that has it. */
  static long offsetOfMaxTimestamp(MemoryRecords records) {
    long largest = RecordBatch.NO_TIMESTAMP;
    long offset = -1;
    for (RecordBatch batch : records.batches()) {
      if (batch.maxTimestamp() > largest) {
        largest = batch.maxTimestamp();
        offset = batch.lastOffset();
      }
    }
    return offset;
  }

  static String json(LogValidator.ValidationResult result, long count) {
    ByteBuffer buffer = result.validatedRecords().buffer();
    byte[] bytes = new byte[buffer.remaining()];
    buffer.duplicate().get(bytes);
    return "{\"append_time\":" + result.logAppendTimeMs() + ",\"max_timestamp\":" + result.maxTimestampMs() + ",\"offset_of_max_timestamp\":"
        + offsetOfMaxTimestamp(result.validatedRecords()) + ",\"changed\":" + result.messageSizeMaybeChanged() + ",\"count\":" + count
        + ",\"bytes\":\"" + Base64.getEncoder().encodeToString(bytes) + "\"}";
  }

  static String quoted(String text) {
    if (text == null) return "null";
    StringBuilder json = new StringBuilder("\"");
    for (char each : text.toCharArray()) {
      if (each == '"' || each == '\\') json.append('\\').append(each);
      else if (each < ' ' || each > '~') json.append(String.format("\\u%04x", (int) each));
      else json.append(each);
    }
    return json.append('"').toString();
  }
}

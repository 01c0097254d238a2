import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;

/**
 * Kafka's own building of batches, for `asv_bench.comparison.writing`: one request a line ("codec size how target TAB path"), one JSON answer a
 * line. The records of the path, laid out as writing.py says, are read before the clock starts. Batches are built in one buffer that is used again
 * and again, as a producer's pool gives it out; whether a record still fits is not asked, for the records come divided into batches. A file is
 * opened within the measured time, and closed after it.
 */
public class WriterWorker {
  static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  static final Map<String, List<Batch>> PREPARED = new HashMap<>();
  static long items;
  static long bytes;
  static long sum; // of what was built, printed, so that no building can be optimised away

  record Batch(long[] timestamps, byte[][] keys, byte[][] values) { }

  public static void main(String[] arguments) throws Exception {
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      String[] parts = line.split("\t");
      String[] words = parts[0].split(" ");
      if (!PREPARED.containsKey(parts[1])) PREPARED.put(parts[1], read(Paths.get(parts[1])));
      items = bytes = sum = 0;
      File file = words[3].equals("file") ? Paths.get(parts[1]).resolveSibling("java.log").toFile() : null;
      System.out.println(measured(PREPARED.get(parts[1]), Compression.of(words[0]).build(), Integer.parseInt(words[1]), file));
    }
  }

  static String measured(List<Batch> batches, Compression compression, int size, File file) throws IOException {
    long begin = System.nanoTime();
    long cpuBegin = THREADS.getCurrentThreadCpuTime();
    FileRecords records = file == null ? null : FileRecords.open(file, true);
    build(batches, compression, size, records);
    double cpuSeconds = (THREADS.getCurrentThreadCpuTime() - cpuBegin) / 1e9;
    double seconds = (System.nanoTime() - begin) / 1e9;
    if (records != null) {
      records.closeHandlers();
      Files.delete(file.toPath());
    }
    return "{\"seconds\":" + seconds + ",\"cpu_seconds\":" + cpuSeconds + ",\"items\":" + items + ",\"bytes\":" + bytes + ",\"sum\":" + sum + "}";
  }

  static void build(List<Batch> batches, Compression compression, int size, FileRecords file) throws IOException {
    ByteBuffer buffer = ByteBuffer.allocate(size);
    for (Batch batch : batches) {
      buffer.clear();
      MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, RecordBatch.MAGIC_VALUE_V2, compression, TimestampType.CREATE_TIME, 0L);
      for (int i = 0; i < batch.keys.length; i++) builder.append(batch.timestamps[i], batch.keys[i], batch.values[i]);
      MemoryRecords built = builder.build();
      if (file != null) file.append(built);
      items += batch.keys.length;
      bytes += built.sizeInBytes();
      sum += built.buffer().getInt(17);
    }
  }

  static List<Batch> read(Path path) throws IOException {
    ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(path));
    List<Batch> batches = new ArrayList<>();
    while (data.hasRemaining()) {
      int count = data.getInt();
      Batch batch = new Batch(new long[count], new byte[count][], new byte[count][]);
      for (int i = 0; i < count; i++) {
        batch.timestamps[i] = data.getLong();
        batch.keys[i] = sized(data);
        batch.values[i] = sized(data);
      }
      batches.add(batch);
    }
    return batches;
  }

  static byte[] sized(ByteBuffer data) {
    byte[] bytes = new byte[data.getInt()];
    data.get(bytes);
    return bytes;
  }
}

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Iterator;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Kafka's own UnifiedLog, for `asv_bench.comparison.log`: one request a line ("case arguments TAB directory"), one JSON answer a line. The cases
 * are those of `log_workers.py`. The clock is the system's, the scheduler a KafkaScheduler of one thread, settings are the defaults. A log that is
 * read from stays open between requests; opening and recovering are measured up to when the log can be used, closing it is not.
 */
public class LogWorker {
  static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  static final KafkaScheduler SCHEDULER = new KafkaScheduler(1);
  static final BufferSupplier BUFFERS = BufferSupplier.create();
  static final long FIRST_TIMESTAMP = 1_700_000_000_000L;
  static final int RECORDS = 20_000;
  static final int VALUE_BYTES = 200;
  static final int FETCH_BYTES = 1 << 20;

  static UnifiedLog reading;
  static String readingFrom = "";
  static long begin;
  static long cpuBegin;
  static long items;
  static long bytes;
  static long sum; // of what was read, printed, so that no reading can be optimised away

  public static void main(String[] arguments) throws Exception {
    SCHEDULER.startup();
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      String[] parts = line.split("\t");
      String[] words = parts[0].split(" ");
      items = sum = 0;
      bytes = -1;
      System.out.println(measured(words, new File(parts[1])));
    }
    Runtime.getRuntime().halt(0);
  }

  static String measured(String[] words, File directory) throws Exception {
    switch (words[0]) {
      case "append": return append(Integer.parseInt(words[1]), Integer.parseInt(words[2]), new File(directory, "java/new-0"));
      case "open": return opened(new File(directory, "java/bench-0"), true);
      case "open-large": return opened(new File(directory, "large/bench-0"), true);
      case "recover": return opened(new File(directory, "large/bench-0"), false);
      default: return read(words, new File(directory, "java/bench-0"));
    }
  }

  static void start() {
    begin = System.nanoTime();
    cpuBegin = THREADS.getCurrentThreadCpuTime();
  }

  static String stop() {
    double cpuSeconds = (THREADS.getCurrentThreadCpuTime() - cpuBegin) / 1e9;
    double seconds = (System.nanoTime() - begin) / 1e9;
    return "{\"seconds\":" + seconds + ",\"cpu_seconds\":" + cpuSeconds + ",";
  }

  static String answer(String times) {
    return times + "\"items\":" + items + ",\"bytes\":" + bytes + ",\"sum\":" + sum + "}";
  }

  static UnifiedLog open(File directory, boolean clean) throws IOException {
    return UnifiedLog.create(directory, new LogConfig(new Properties()), 0L, clean ? Long.MAX_VALUE : 0L, SCHEDULER, new BrokerTopicStats(false), Time.SYSTEM,
        5 * 60 * 1000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(10), clean, Optional.empty());
  }

  static String append(int inBatch, int count, File directory) throws Exception {
    directory.mkdirs();
    SimpleRecord[][] batches = new SimpleRecord[RECORDS / inBatch][inBatch];
    for (int i = 0; i < batches.length * inBatch; i++) batches[i / inBatch][i % inBatch] = new SimpleRecord(FIRST_TIMESTAMP + i, null, value(i));
    UnifiedLog log = open(directory, true);
    start();
    for (int i = 0; items < count; i++) {
      MemoryRecords records = MemoryRecords.withRecords(Compression.NONE, batches[i % batches.length]);
      log.appendAsLeader(records, 0, AppendOrigin.CLIENT, RequestLocal.noCaching(), VerificationGuard.SENTINEL, (short) 0);
      log.updateHighWatermark(log.logEndOffset());
      items += inBatch;
    }
    String times = stop();
    bytes = log.size();
    log.close();
    Utils.delete(directory);
    return answer(times);
  }

  static byte[] value(int seed) {
    byte[] value = new byte[VALUE_BYTES];
    for (int i = 0; i < VALUE_BYTES; i++) value[i] = (byte) (seed + i);
    return value;
  }

  static String opened(File directory, boolean clean) throws Exception {
    letGo();
    if (!clean) for (File file : directory.listFiles()) if (file.getName().endsWith(".snapshot")) file.delete();
    start();
    UnifiedLog log = open(directory, clean);
    String times = stop();
    items = log.numberOfSegments();
    bytes = log.size();
    sum = log.logEndOffset();
    log.close();
    return answer(times);
  }

  static void letGo() throws Exception {
    if (reading != null) reading.close();
    reading = null;
    readingFrom = "";
  }

  static String read(String[] words, File directory) throws Exception {
    if (!readingFrom.equals(directory.getPath())) {
      letGo();
      reading = open(directory, true);
      readingFrom = directory.getPath();
    }
    start();
    if (words[0].equals("all")) all(reading);
    else random(reading, words[0].equals("timestamp"), Integer.parseInt(words[1]));
    return answer(stop());
  }

  static void all(UnifiedLog log) throws IOException {
    long end = log.logEndOffset();
    for (long offset = 0; offset < end; ) {
      FetchDataInfo found = log.read(offset, FETCH_BYTES, FetchIsolation.LOG_END, true);
      for (RecordBatch batch : found.records.batches()) {
        batch.ensureValid();
        try (CloseableIterator<Record> records = batch.streamingIterator(BUFFERS)) {
          while (records.hasNext()) {
            Record record = records.next();
            sum += record.offset() + record.timestamp() + record.keySize() + record.valueSize();
            items++;
          }
        }
        offset = batch.nextOffset();
      }
    }
  }

  static void random(UnifiedLog log, boolean byTime, int count) throws IOException {
    long end = log.logEndOffset();
    long state = 1;
    for (int i = 0; i < count; i++) {
      state = state * 6364136223846793005L + 1442695040888963407L;
      long offset = (state >>> 11) % end;
      if (byTime) offset = log.fetchOffsetByTimestamp(FIRST_TIMESTAMP + 7 * offset, Optional.empty()).timestampAndOffsetOpt().get().offset;
      sum += first(log, offset).valueSize();
      items++;
    }
  }

  static Record first(UnifiedLog log, long offset) throws IOException {
    Iterator<? extends RecordBatch> batches = log.read(offset, 1, FetchIsolation.LOG_END, true).records.batches().iterator();
    RecordBatch batch = batches.next();
    batch.ensureValid();
    for (Record record : batch) if (record.offset() >= offset) return record;
    throw new IllegalStateException("no record at offset " + offset);
  }
}

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import org.apache.kafka.common.record.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;

/**
 * Kafka's own reading of a segment, for `asv_bench.peers`: one request a line ("case TAB path"), one JSON answer a line.
 * The virtual machine lives on between requests, so that what is measured is compiled code; decompression buffers are reused
 * through a BufferSupplier, as the consumer does. A request opens the file and closes it, inside the measured time.
 */
public class PeerWorker {
  static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  static long items;
  static long bytes;
  static long sum; // of every field touched, printed, so that no reading can be optimised away

  public static void main(String[] arguments) throws Exception {
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      String[] parts = line.split("\t");
      items = bytes = sum = 0;
      long begin = System.nanoTime();
      long cpuBegin = THREADS.getCurrentThreadCpuTime();
      try (FileRecords file = FileRecords.open(new File(parts[1]), false)) {
        run(parts[0], file);
      }
      double cpuSeconds = (THREADS.getCurrentThreadCpuTime() - cpuBegin) / 1e9;
      double seconds = (System.nanoTime() - begin) / 1e9;
      System.out.println("{\"seconds\":" + seconds + ",\"cpu_seconds\":" + cpuSeconds + ",\"items\":" + items + ",\"bytes\":" + bytes + ",\"sum\":" + sum + "}");
    }
  }

  static void run(String name, FileRecords file) {
    switch (name) {
      case "records": readRecords(file, false); break;
      case "records_crc": readRecords(file, true); break;
      case "headers": readHeaders(file); break;
      case "crc": checkCrcs(file); break;
      default: throw new IllegalArgumentException(name);
    }
  }

  static void readRecords(FileRecords file, boolean crc) {
    try (BufferSupplier buffers = BufferSupplier.create()) {
      for (FileChannelRecordBatch batch : file.batches()) {
        if (crc) batch.ensureValid();
        try (CloseableIterator<Record> records = batch.streamingIterator(buffers)) {
          while (records.hasNext()) touch(records.next());
        }
      }
    }
  }

  static void touch(Record record) {
    items++;
    bytes += record.keySize() + record.valueSize();
    sum += record.offset() + record.timestamp();
  }

  static void readHeaders(FileRecords file) {
    for (FileChannelRecordBatch batch : file.batches()) {
      items++;
      bytes += batch.sizeInBytes();
      sum += batch.baseOffset() + batch.lastOffset() + batch.maxTimestamp() + batch.countOrNull();
    }
  }

  static void checkCrcs(FileRecords file) {
    for (FileChannelRecordBatch batch : file.batches()) {
      batch.ensureValid();
      items++;
      bytes += batch.sizeInBytes();
    }
  }
}

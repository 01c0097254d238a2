import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.zip.CRC32;
import org.apache.kafka.common.message.DescribeProducersResponseData.ProducerState;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Records;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Timer;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * UnifiedLogDriver: Kafka's own UnifiedLog, asked line by line. A line of standard input is a command, a line of standard output its answer:
 * {"answer": ...} or {"error": class, "message": text}, and "state", what the log says of itself then (null: none is open).
 *
 *   open DIRECTORY clean|unclean LOG_START RECOVERY_POINT topic.setting=value ...     a partition directory, topic-0
 *   leader BASE64 EPOCH ORIGIN TRANSACTION_VERSION | follower BASE64 EPOCH
 *   hw OFFSET | raise-hw OFFSET | start OFFSET | truncate OFFSET | restart OFFSET LOG_START|- | roll | flush | retention | snapshot | expire
 *   read OFFSET MAX_BYTES ISOLATION MIN_ONE | time TIMESTAMP | epoch-end EPOCH
 *   clock MS | close | crash                       the clock stands still but for 'clock'; a crash leaves the files as they are
 *
 * Scheduled work runs at once, in this thread.
 */
public class UnifiedLogDriver {
  static long now;
  static UnifiedLog log;

  static final Time CLOCK = new Time() {
    public long milliseconds() { return now; }
    public long nanoseconds() { return now * 1_000_000; }
    public long hiResClockMs() { return now; }
    public void sleep(long ms) { now += ms; }
    public void waitObject(Object object, Supplier<Boolean> condition, long deadline) { }
    public Timer timer(long timeout) { return Time.SYSTEM.timer(timeout); }
  };

  static final Scheduler AT_ONCE = new Scheduler() {
    public void startup() { }
    public void shutdown() { }
    public void resizeThreadPool(int size) { }
    public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) {
      if (period < 0) task.run();
      return new Done();
    }
  };

  static class Done implements ScheduledFuture<Object> {
    public long getDelay(TimeUnit unit) { return 0; }
    public int compareTo(Delayed other) { return 0; }
    public boolean cancel(boolean interrupt) { return false; }
    public boolean isCancelled() { return false; }
    public boolean isDone() { return true; }
    public Object get() { return null; }
    public Object get(long timeout, TimeUnit unit) { return null; }
  }

  public static void main(String[] arguments) throws Exception {
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    System.setOut(System.err);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = in.readLine()) != null; ) {
      String answer;
      try {
        answer = "{\"answer\":" + run(line.split(" "));
      } catch (Throwable problem) {
        answer = "{\"error\":" + quoted(problem.getClass().getSimpleName()) + ",\"message\":" + quoted(problem.getMessage());
      }
      out.println(answer + ",\"state\":" + (log == null ? null : state()) + "}");
    }
  }

  static String run(String[] words) throws Exception {
    switch (words[0]) {
      case "open": return open(words);
      case "clock": now = Long.parseLong(words[1]); return "true";
      case "leader": return info(log.appendAsLeader(records(words[1]), Integer.parseInt(words[2]), AppendOrigin.valueOf(words[3]),
          RequestLocal.noCaching(), VerificationGuard.SENTINEL, Short.parseShort(words[4])));
      case "follower": return info(log.appendAsFollower(records(words[1]), Integer.parseInt(words[2])));
      case "hw": return "" + log.updateHighWatermark(Long.parseLong(words[1]));
      case "raise-hw": return json(log.maybeIncrementHighWatermark(new LogOffsetMetadata(Long.parseLong(words[1]))).map(m -> m.messageOffset));
      case "start": return "" + log.maybeIncrementLogStartOffset(Long.parseLong(words[1]), LogStartOffsetIncrementReason.ClientRecordDeletion);
      case "truncate": return "" + log.truncateTo(Long.parseLong(words[1]));
      case "restart":
        log.truncateFullyAndStartAt(Long.parseLong(words[1]), words[2].equals("-") ? Optional.empty() : Optional.of(Long.parseLong(words[2])));
        return "true";
      case "roll": return "" + log.roll().baseOffset();
      case "flush": log.flush(Boolean.parseBoolean(words[1])); return "true";
      case "retention": return "" + log.deleteOldSegments();
      case "snapshot": log.takeProducerSnapshot(); return "true";
      case "expire": log.removeExpiredProducers(now); return "true";
      case "epoch-end": return json(log.endOffsetForEpoch(Integer.parseInt(words[1])).map(end -> "[" + end.epoch() + "," + end.offset() + "]"));
      case "time": return json(log.fetchOffsetByTimestamp(Long.parseLong(words[1]), Optional.empty()).timestampAndOffsetOpt()
          .map(at -> "[" + at.timestamp + "," + at.offset + "," + json(at.leaderEpoch) + "]"));
      case "read": return read(log.read(Long.parseLong(words[1]), Integer.parseInt(words[2]), FetchIsolation.valueOf(words[3]),
          Boolean.parseBoolean(words[4])));
      case "close": return ended(true);
      case "crash": return ended(false);
      default: throw new IllegalArgumentException("unknown command " + words[0]);
    }
  }

  static String open(String[] words) throws Exception {
    ended(false);
    Properties settings = new Properties();
    for (String word : Arrays.asList(words).subList(5, words.length)) {
      int at = word.indexOf('=');
      settings.setProperty(word.substring(0, at), word.substring(at + 1));
    }
    log = UnifiedLog.create(new File(words[1]), new LogConfig(settings), Long.parseLong(words[3]), Long.parseLong(words[4]), AT_ONCE,
        new BrokerTopicStats(false), CLOCK, 5 * 60 * 1000, new ProducerStateManagerConfig(86_400_000, false), 600_000,
        new LogDirFailureChannel(10), words[2].equals("clean"), Optional.empty());
    return "true";
  }

  /** Closed as a broker does that shuts down; or the files as they are. The handles go either way, or thousands of logs would keep theirs. */
  static String ended(boolean cleanly) throws Exception {
    UnifiedLog ending = log;
    log = null;
    if (ending == null) return "false";
    try {
      if (cleanly) {
        ending.flush(true);
        ending.close();
      }
    } finally {
      ending.closeHandlers();
    }
    return "true";
  }

  static MemoryRecords records(String base64) {
    return MemoryRecords.readableRecords(ByteBuffer.wrap(Base64.getDecoder().decode(base64)));
  }

  static String info(LogAppendInfo info) {
    return "{\"first\":" + info.firstOffset() + ",\"last\":" + info.lastOffset() + ",\"epoch\":" + json(info.lastLeaderEpoch())
        + ",\"max_timestamp\":" + info.maxTimestamp() + ",\"append_time\":" + info.logAppendTime() + ",\"log_start\":" + info.logStartOffset()
        + ",\"valid_bytes\":" + info.validBytes() + ",\"codec\":\"" + info.sourceCompression().name + "\"}";
  }

  static String read(FetchDataInfo read) throws Exception {
    StringJoiner aborted = new StringJoiner(",", "[", "]");
    read.abortedTransactions.ifPresent(all -> all.forEach(each -> aborted.add("[" + each.producerId() + "," + each.firstOffset() + "]")));
    LogOffsetMetadata at = read.fetchOffsetMetadata;
    return "{\"size\":" + read.records.sizeInBytes() + ",\"checksum\":" + checksum(read.records) + ",\"at\":[" + at.messageOffset + ","
        + at.segmentBaseOffset + "," + at.relativePositionInSegment + "],\"first_entry_incomplete\":" + read.firstEntryIncomplete
        + ",\"aborted\":" + (read.abortedTransactions.isPresent() ? aborted : null) + "}";
  }

  static long checksum(Records records) throws Exception {
    CRC32 crc = new CRC32();
    if (records instanceof FileRecords) {
      ByteBuffer buffer = ByteBuffer.allocate(records.sizeInBytes());
      ((FileRecords) records).readInto(buffer, 0);
      crc.update(buffer);
    }
    return crc.getValue();
  }

  static String state() {
    StringJoiner segments = new StringJoiner(",", "[", "]");
    for (LogSegment each : log.logSegments()) segments.add("[" + each.baseOffset() + "," + each.size() + "]");
    StringJoiner epochs = new StringJoiner(",", "[", "]");
    log.leaderEpochCache().epochEntries().forEach(each -> epochs.add("[" + each.epoch() + "," + each.startOffset() + "]"));
    return "{\"log_start\":" + log.logStartOffset() + ",\"log_end\":" + log.logEndOffset() + ",\"hw\":" + log.highWatermark() + ",\"lso\":"
        + log.lastStableOffset() + ",\"first_unstable\":" + json(log.firstUnstableOffset()) + ",\"recovery_point\":" + log.recoveryPoint()
        + ",\"producer_end\":" + log.latestProducerStateEndOffset() + ",\"segments\":" + segments + ",\"epochs\":" + epochs + ",\"producers\":"
        + producers() + "}";
  }

  static String producers() {
    Map<Long, String> sorted = new TreeMap<>();
    for (ProducerState each : log.activeProducers()) {
      sorted.put(each.producerId(), "[" + each.producerEpoch() + "," + each.lastSequence() + "," + each.lastTimestamp() + ","
          + each.coordinatorEpoch() + "," + each.currentTxnStartOffset() + "]");
    }
    StringJoiner all = new StringJoiner(",", "{", "}");
    sorted.forEach((id, text) -> all.add("\"" + id + "\":" + text));
    return all.toString();
  }

  static String json(Optional<?> value) {
    return value.map(String::valueOf).orElse("null");
  }

  static String quoted(String text) {
    if (text == null) return "null";
    return '"' + text.replace("\\", "\\\\").replace("\"", "'").replaceAll("\\p{Cntrl}", " ") + '"';
  }
}

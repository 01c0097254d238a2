import java.io.File;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.TreeSet;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.CompletedTxn;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * Producers STEPS OUT: what Kafka's ProducerStateManager makes of each step.
 *
 * STEPS has a line a step, OUT two lines a step: what came of it (the simple name of an exception, or its result), and all that the manager then
 * knows. "open DIRECTORY" begins with a new manager, "read FILE" reads a snapshot. After an exception the rest of an append is not tried.
 */
public class Producers {
  static final int TIMEOUT_MS = 60_000, EXPIRATION_MS = 86_400_000;
  static ProducerStateManager manager;
  static ProducerAppendInfo info;
  static List<CompletedTxn> completed;
  static File directory;

  public static void main(String[] args) throws Exception {
    try (PrintStream out = new PrintStream(args[1], StandardCharsets.UTF_8)) {
      for (String line : Files.readAllLines(Paths.get(args[0]))) {
        String[] words = line.split(" ");
        String answer;
        try {
          answer = step(words);
        } catch (Exception error) {
          answer = error.getClass().getSimpleName();
          info = null;
        }
        out.println(answer);
        out.println(words[0].equals("read") ? "" : state());
      }
    }
  }

  static String step(String[] words) throws Exception {
    if (info == null && Arrays.asList("data", "marker", "update").contains(words[0])) {
      return "refused before";
    }
    switch (words[0]) {
      case "open":
        directory = new File(words[1]);
        manager = new ProducerStateManager(new TopicPartition("topic", 0), directory, TIMEOUT_MS,
            new ProducerStateManagerConfig(EXPIRATION_MS, false), Time.SYSTEM);
        return "-";
      case "prepare":
        info = manager.prepareUpdate(number(words[1]), AppendOrigin.valueOf(words[2]));
        completed = new ArrayList<>();
        return "-";
      case "data":
        info.appendDataBatch((short) number(words[1]), (int) number(words[2]), (int) number(words[3]), number(words[4]),
            new LogOffsetMetadata(number(words[5]), 0, 7), number(words[6]), words[7].equals("1"));
        return "-";
      case "marker":
        EndTransactionMarker marker = new EndTransactionMarker(
            words[5].equals("1") ? ControlRecordType.ABORT : ControlRecordType.COMMIT, (int) number(words[2]));
        Optional<CompletedTxn> ended = info.appendEndTxnMarker(marker, (short) number(words[1]), number(words[3]),
            number(words[4]), (short) number(words[6]));
        ended.ifPresent(completed::add);
        return ended.map(Producers::text).orElse("-");
      case "update":
        manager.update(info);
        StringBuilder stable = new StringBuilder("-");
        for (CompletedTxn each : completed) {
          stable.append(" ").append(manager.lastStableOffset(each));
          manager.completeTxn(each);
        }
        return stable.toString();
      case "end":
        manager.updateMapEndOffset(number(words[1]));
        return "-";
      case "watermark":
        manager.onHighWatermarkUpdated(number(words[1]));
        return "-";
      case "start":
        manager.onLogStartOffsetIncremented(number(words[1]));
        return "-";
      case "expire":
        manager.removeExpiredProducers(number(words[1]));
        return "-";
      case "reload":
        manager.truncateAndReload(number(words[1]), number(words[2]), number(words[3]));
        return "-";
      case "fully":
        manager.truncateFullyAndStartAt(number(words[1]));
        return "-";
      case "snapshot":
        return manager.takeSnapshot(false).map(File::getName).orElse("-");
      case "mark":
        return manager.removeAndMarkSnapshotForDeletion(number(words[1])).map(each -> each.file().getName()).orElse("-");
      case "strays":
        List<Long> bases = new ArrayList<>();
        for (String word : Arrays.asList(words).subList(1, words.length)) {
          bases.add(number(word));
        }
        manager.removeStraySnapshots(bases);
        return "-";
      case "damage":
        return damage(manager.latestSnapshotOffset(), Integer.parseInt(words[1]));
      case "read":
        return entries(ProducerStateManager.readSnapshot(new File(words[1])));
      default:
        throw new IllegalArgumentException(words[0]);
    }
  }

  static String damage(OptionalLong latest, int kept) throws Exception {
    if (latest.isEmpty()) {
      return "-";
    }
    File file = manager.fetchSnapshot(latest.getAsLong()).get();
    byte[] bytes = Files.readAllBytes(file.toPath());
    Files.write(file.toPath(), Arrays.copyOf(bytes, Math.max(0, Math.min(kept, bytes.length - 1))));
    return file.getName();
  }

  static long number(String word) {
    return Long.parseLong(word);
  }

  static String text(CompletedTxn each) {
    return each.producerId() + " " + each.firstOffset() + " " + each.lastOffset() + " " + (each.isAborted() ? 1 : 0);
  }

  static String state() {
    Optional<LogOffsetMetadata> unstable = manager.firstUnstableOffset();
    return "end " + manager.mapEndOffset()
        + " unstable " + unstable.map(each -> each.messageOffset + "@" + each.relativePositionInSegment).orElse("-")
        + " undecided " + text(manager.firstUndecidedOffset())
        + " snapshots " + text(manager.oldestSnapshotOffset()) + ".." + text(manager.latestSnapshotOffset())
        + " empty " + (manager.isEmpty() ? 1 : 0)
        + " files " + String.join(",", new TreeSet<>(Arrays.asList(directory.list())))
        + " producers" + entries(manager.activeProducers().values());
  }

  static String text(OptionalLong offset) {
    return offset.isPresent() ? String.valueOf(offset.getAsLong()) : "-";
  }

  static String entries(Iterable<ProducerStateEntry> entries) {
    TreeSet<String> lines = new TreeSet<>();
    for (ProducerStateEntry each : entries) {
      StringBuilder line = new StringBuilder(" [" + each.producerId() + " " + each.producerEpoch() + " " + each.coordinatorEpoch() + " "
          + each.lastTimestamp() + " " + text(each.currentTxnFirstOffset()));
      for (BatchMetadata batch : each.batchMetadata()) {
        line.append(" | ").append(batch.firstSeq()).append("..").append(batch.lastSeq()).append("@").append(batch.firstOffset()).append("..")
            .append(batch.lastOffset()).append("@").append(batch.timestamp());
      }
      lines.add(line.append("]").toString());
    }
    return String.join("", lines);
  }
}

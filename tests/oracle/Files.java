import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.util.FileLock;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;

/**
 * Kafka's own classes at the small files of a data directory.
 *
 * <p>{@code lock FILE}: tries the lock, says "locked" or "refused", and holds it to the end of its input.
 *
 * <p>{@code ask}: a question a line, with tabs; an answer a line:
 * {@code settings}: name=default for each setting of a topic;
 * {@code set NAME VALUE [NAME VALUE ...]}: the values it makes of them and what follows from all, or "refused";
 * {@code cache FILE [STEP NUMBER NUMBER ...]}: the answers of a cache of leader epochs after these steps, and its file;
 * {@code offsets FILE}, {@code epochs FILE}, {@code metadata FILE}, {@code clean DIRECTORY}: what it says, or "refused".
 */
public class Files {
  public static void main(String[] arguments) throws Exception {
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    if (arguments[0].equals("lock")) {
      FileLock lock = new FileLock(new File(arguments[1]));
      System.out.println(lock.tryLock() ? "locked" : "refused");
      System.out.flush();
      input.readLine();
      return;
    }
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      String[] words = line.split("\t", -1);
      String answer;
      try {
        answer = answer(words);
      } catch (Exception | OutOfMemoryError error) {
        answer = "refused";
      }
      System.out.println(answer);
    }
  }

  static String answer(String[] words) throws Exception {
    LogDirFailureChannel failures = new LogDirFailureChannel(100);
    switch (words[0]) {
      case "settings":
        return settings();
      case "set":
        return set(words);
      case "offsets":
        TreeMap<String, Long> offsets = new TreeMap<>();
        new OffsetCheckpointFile(new File(words[1]), failures).read().forEach((key, value) -> offsets.put(key.topic() + " " + key.partition(), value));
        return offsets.toString();
      case "epochs":
        List<String> epochs = new ArrayList<>();
        new LeaderEpochCheckpointFile(new File(words[1]), failures).read().forEach(each -> epochs.add(each.epoch() + " " + each.startOffset()));
        return epochs.toString();
      case "metadata":
        var metadata = new PartitionMetadataFile(new File(words[1]), failures).read();
        return metadata.version() + " " + metadata.topicId();
      case "cache":
        return cache(words);
      case "clean":
        CleanShutdownFileHandler clean = new CleanShutdownFileHandler(words[1]);
        OptionalLong epoch = clean.read();
        return clean.exists() + " " + (epoch.isPresent() ? epoch.getAsLong() : "none");
      default:
        throw new IllegalArgumentException(words[0]);
    }
  }

  static final Scheduler AT_ONCE =
      new Scheduler() {
        public void startup() {}

        public void shutdown() {}

        public void resizeThreadPool(int size) {}

        public java.util.concurrent.ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) {
          task.run();
          return null;
        }
      };

  static String cache(String[] words) throws Exception {
    File file = new File(words[1]);
    LeaderEpochCheckpointFile checkpoint = new LeaderEpochCheckpointFile(file, new LogDirFailureChannel(100));
    LeaderEpochFileCache cache = new LeaderEpochFileCache(new TopicPartition("t", 0), checkpoint, AT_ONCE);
    for (int i = 2; i < words.length; i += 3) {
      long offset = Long.parseLong(words[i + 2]);
      switch (words[i]) {
        case "assign" -> cache.assign(Integer.parseInt(words[i + 1]), offset);
        case "end" -> cache.truncateFromEndAsyncFlush(offset);
        case "start" -> cache.truncateFromStartAsyncFlush(offset);
        default -> cache.clearAndFlush();
      }
    }
    StringBuilder all = new StringBuilder();
    for (int epoch = -1; epoch < 10; epoch++) {
      var end = cache.endOffsetFor(epoch, 99);
      all.append(end.getKey() + " " + end.getValue() + ",");
    }
    for (int offset = 0; offset < 32; offset++) all.append(cache.epochForOffset(offset).orElse(-1) + " ");
    return all + java.nio.file.Files.readString(file.toPath()).replace('\n', '/');
  }

  static String settings() {
    List<String> all = new ArrayList<>();
    for (String name : LogConfig.configNames()) {
      var key = LogConfig.configKeys().get(name);
      all.add(name + "=" + ConfigDef.convertToString(key.defaultValue, key.type));
    }
    return String.join("\t", all);
  }

  static String set(String[] words) {
    Properties properties = new Properties();
    for (int i = 1; i < words.length; i += 2) properties.setProperty(words[i], words[i + 1]);
    LogConfig.validate(properties);
    LogConfig config = new LogConfig(properties);
    List<String> all = new ArrayList<>();
    for (int i = 1; i < words.length; i += 2) {
      var key = LogConfig.configKeys().get(words[i]);
      all.add(ConfigDef.convertToString(config.values().get(words[i]), key.type));
    }
    all.add(config.compact + " " + config.delete + " " + config.maxSegmentMs() + " " + config.initFileSize() + " " + config.segmentSize());
    all.add(config.compression.isPresent() ? config.compression.get().type().name : "producer");
    return String.join("\t", all);
  }
}

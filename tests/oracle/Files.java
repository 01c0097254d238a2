import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.util.FileLock;
import org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile;
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
      case "clean":
        CleanShutdownFileHandler clean = new CleanShutdownFileHandler(words[1]);
        OptionalLong epoch = clean.read();
        return clean.exists() + " " + (epoch.isPresent() ? epoch.getAsLong() : "none");
      default:
        throw new IllegalArgumentException(words[0]);
    }
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

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.FileOutputStream;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.metadata.AbortTransactionRecord;
import org.apache.kafka.common.metadata.BeginTransactionRecord;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.EndTransactionRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.NoOpRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.ProducerIdsRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.TopicImage;
import org.apache.kafka.image.loader.MetadataBatchLoader;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Metadata OUT COUNT: logs of a cluster's metadata, and what Kafka makes of them.
 *
 * OUT/NUMBER/__cluster_metadata-0 has a log, of every other one its first half in a snapshot; the file OUT/images has
 * a line of JSON for each: topics, features, settings.
 */
public class Metadata {
  static final ObjectMapper JSON = new ObjectMapper();
  static final MetadataRecordSerde SERDE = new MetadataRecordSerde();

  final Random random;
  final List<String> names = new ArrayList<>();
  final List<Uuid> ids = new ArrayList<>();
  final List<Integer> counts = new ArrayList<>();
  MetadataImage image = MetadataImage.EMPTY;

  Metadata(long seed) {
    random = new Random(seed);
  }

  public static void main(String[] arguments) throws Exception {
    try (PrintWriter images = new PrintWriter(Paths.get(arguments[0], "images").toFile(), "UTF-8")) {
      for (int number = 0; number < Integer.parseInt(arguments[1]); number++) {
        Path directory = Paths.get(arguments[0], "" + number, "__cluster_metadata-0");
        Files.createDirectories(directory);
        images.println(new Metadata(number).write(directory, number % 2 == 1));
      }
    }
  }

  String write(Path directory, boolean snapshot) throws Exception {
    MetadataBatchLoader loader =
        new MetadataBatchLoader(
            new LogContext(),
            Time.SYSTEM,
            (message, error) -> new RuntimeException(message, error),
            (delta, changed, manifest) -> image = changed);
    loader.resetToImage(image);
    Path log = directory.resolve(String.format("%020d.log", 0));
    long offset = 0;
    boolean open = false;
    for (int round = 0; round < 40; round++) {
      List<ApiMessageAndVersion> records = new ArrayList<>();
      if (round == 0) {
        records.add(of(new FeatureLevelRecord().setName("metadata.version").setFeatureLevel((short) 29), 0));
      }
      if (snapshot && round == 20 && !open) {
        log = snapshot(directory, offset);
      }
      if (!open && random.nextInt(6) == 0) {
        records.add(of(new BeginTransactionRecord().setName("some"), 0));
        open = true;
      }
      for (int count = 1 + random.nextInt(4); count > 0; count--) {
        add(records, open);
      }
      if (open && random.nextInt(3) > 0) {
        boolean aborted = random.nextBoolean();
        records.add(aborted ? of(new AbortTransactionRecord().setReason("x"), 0) : of(new EndTransactionRecord(), 0));
        open = false;
      }
      if (records.isEmpty()) {
        records.add(of(new NoOpRecord(), 0));
      }
      append(log, offset, records);
      loader.loadBatch(Batch.data(offset, 7, 1, 1, records), LeaderAndEpoch.UNKNOWN);
      loader.maybeFlushBatches(LeaderAndEpoch.UNKNOWN, true);
      offset += records.size();
      if (!open) {
        remember();
      }
    }
    return JSON.writeValueAsString(view());
  }

  /** Write the image as a snapshot; return the log that follows. */
  Path snapshot(Path directory, long offset) throws Exception {
    RecordListWriter writer = new RecordListWriter();
    image.write(writer, new ImageWriterOptions.Builder(image).build());
    long at = 0;
    Path path = directory.resolve(String.format("%020d-%010d.checkpoint", offset, 7));
    for (ApiMessageAndVersion record : writer.records()) {
      append(path, at++, List.of(record));
    }
    if (random.nextBoolean()) {
      return directory.resolve(String.format("%020d.log", 0));
    }
    Files.delete(directory.resolve(String.format("%020d.log", 0)));
    return directory.resolve(String.format("%020d.log", offset));
  }

  void remember() {
    names.clear();
    ids.clear();
    counts.clear();
    for (TopicImage topic : image.topics().topicsById().values()) {
      names.add(topic.name());
      ids.add(topic.id());
      counts.add(topic.partitions().size());
    }
  }

  void add(List<ApiMessageAndVersion> records, boolean open) {
    int some = ids.isEmpty() ? 0 : random.nextInt(ids.size());
    switch (random.nextInt(9)) {
      case 0:
      case 1:
        String name = "topic-" + random.nextInt(50);
        if (image.topics().getTopic(name) == null && !names.contains(name)) {
          create(records, name);
          names.add(name);
        }
        return;
      case 2:
        if (!ids.isEmpty() && !open) {
          records.add(of(new RemoveTopicRecord().setTopicId(ids.get(some)), 0));
          ids.remove(some);
          counts.remove(some);
        }
        return;
      case 3:
        if (!ids.isEmpty()) {
          change(records, ids.get(some), random.nextInt(counts.get(some)));
        }
        return;
      case 4:
      case 5:
        byte[] types = {2, 4, 4, 16, 32};
        byte type = types[random.nextInt(types.length)];
        String owner = type == 4 ? (random.nextBoolean() ? "" : "1") : "topic-" + random.nextInt(50);
        String value = random.nextInt(4) == 0 ? null : "ä".repeat(random.nextInt(200));
        String setting = "setting." + random.nextInt(5);
        records.add(of(new ConfigRecord().setResourceType(type).setResourceName(owner).setName(setting).setValue(value), 0));
        return;
      case 6:
        short level = (short) random.nextInt(3);
        records.add(of(new FeatureLevelRecord().setName("transaction.version").setFeatureLevel(level), 0));
        return;
      case 7:
        records.add(of(new ProducerIdsRecord().setBrokerId(1).setBrokerEpoch(1).setNextProducerId(records.size()), 0));
        return;
      default:
        records.add(of(new NoOpRecord(), 0));
        records.add(of(new RegisterBrokerRecord().setBrokerId(1).setLogDirs(List.of(Uuid.randomUuid())), 3));
    }
  }

  void create(List<ApiMessageAndVersion> records, String name) {
    Uuid id = new Uuid(random.nextLong(), random.nextLong());
    records.add(of(new TopicRecord().setName(name).setTopicId(id), 0));
    for (int number = 0, count = 1 + random.nextInt(3); number < count; number++) {
      List<Integer> replicas = replicas();
      PartitionRecord record =
          new PartitionRecord()
              .setPartitionId(number)
              .setTopicId(id)
              .setReplicas(replicas)
              .setIsr(replicas.subList(0, 1))
              .setLeader(replicas.get(0))
              .setLeaderRecoveryState((byte) random.nextInt(2))
              .setLeaderEpoch(random.nextInt())
              .setPartitionEpoch(random.nextInt());
      int version = random.nextInt(3);
      if (version > 0) {
        record.setDirectories(directories(replicas.size()));
      }
      if (version > 1) {
        record.setEligibleLeaderReplicas(replicas).setLastKnownElr(List.of(3));
      }
      records.add(of(record, version));
    }
  }

  void change(List<ApiMessageAndVersion> records, Uuid id, int number) {
    PartitionChangeRecord record = new PartitionChangeRecord().setPartitionId(number).setTopicId(id);
    int version = random.nextInt(3);
    if (random.nextBoolean()) {
      record.setIsr(List.of(1)).setLeader(1).setRemovingReplicas(List.of(2, 300));
    }
    if (version > 0 && random.nextBoolean()) {
      List<Integer> replicas = replicas();
      record.setReplicas(replicas).setDirectories(directories(replicas.size()));
    }
    if (version > 1) {
      record.setEligibleLeaderReplicas(List.of(5));
    }
    records.add(of(record, version));
  }

  List<Integer> replicas() {
    List<Integer> found = new ArrayList<>();
    for (int node = 1 + random.nextInt(300), count = 1 + random.nextInt(4); count > 0; count--) {
      found.add(node++);
    }
    return found;
  }

  List<Uuid> directories(int count) {
    List<Uuid> found = new ArrayList<>();
    while (found.size() < count) {
      found.add(new Uuid(random.nextLong(), random.nextLong()));
    }
    return found;
  }

  static ApiMessageAndVersion of(ApiMessage message, int version) {
    return new ApiMessageAndVersion(message, (short) version);
  }

  static void append(Path path, long offset, List<ApiMessageAndVersion> records) throws Exception {
    SimpleRecord[] values = new SimpleRecord[records.size()];
    for (int at = 0; at < values.length; at++) {
      ObjectSerializationCache cache = new ObjectSerializationCache();
      ByteBuffer value = ByteBuffer.allocate(SERDE.recordSize(records.get(at), cache));
      SERDE.write(records.get(at), cache, new ByteBufferAccessor(value));
      values[at] = new SimpleRecord(1, null, value.array());
    }
    try (FileOutputStream out = new FileOutputStream(path.toFile(), true); FileChannel channel = out.getChannel()) {
      if (values.length > 0) {
        MemoryRecords.withRecords(offset, Compression.NONE, 7, values).writeFullyTo(channel);
      }
    }
  }

  ObjectNode view() {
    ObjectNode found = JSON.createObjectNode();
    ObjectNode topics = found.putObject("topics");
    for (TopicImage topic : image.topics().topicsByName().values()) {
      ObjectNode of = topics.putObject(topic.name()).put("id", topic.id().toString()).putObject("partitions");
      for (var entry : topic.partitions().entrySet()) {
        PartitionRegistration partition = entry.getValue();
        ObjectNode replicas = of.putObject("" + entry.getKey());
        ArrayNode nodes = replicas.putArray("nodes");
        ArrayNode directories = replicas.putArray("directories");
        for (int at = 0; at < partition.replicas.length; at++) {
          nodes.add(partition.replicas[at]);
          directories.add(partition.directories[at].toString());
        }
      }
    }
    ObjectNode features = found.putObject("features");
    image.features().finalizedVersions().forEach((name, level) -> features.put(name, (int) level));
    image.features().metadataVersion().ifPresent(version -> features.put("metadata.version", (int) version.featureLevel()));
    ArrayNode settings = found.putArray("settings");
    for (ConfigResource resource : image.configs().resourceData().keySet()) {
      ArrayNode one = settings.addArray().add((int) resource.type().id()).add(resource.name());
      ObjectNode values = one.addObject();
      new TreeMap<>(image.configs().configMapForResource(resource)).forEach(values::put);
    }
    return found;
  }
}

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A broker asked through Kafka's own clients: a JSON object a line in, one a line out. Bytes are base64. */
public class BrokerClient {
  static final ObjectMapper JSON = new ObjectMapper();
  static final Duration PATIENCE = Duration.ofSeconds(300);

  public static void main(String[] args) throws Exception {
    PrintStream out = System.out;
    System.setOut(System.err);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      ObjectNode answer = JSON.createObjectNode();
      try {
        answer.set("answer", answer(JSON.readTree(line)));
      } catch (Throwable error) {
        answer.put("error", error.toString());
      }
      out.println(answer);
      out.flush();
    }
  }

  static JsonNode answer(JsonNode asked) throws Exception {
    return switch (asked.get("do").asText()) {
      case "format" -> format(asked);
      case "create" -> create(asked);
      case "produce" -> produce(asked);
      case "view" -> view(asked);
      case "look" -> look(asked);
      case "low" -> low(asked);
      case "delete" -> delete(asked);
      default -> throw new IllegalArgumentException(asked.toString());
    };
  }

  static Properties client(JsonNode asked, Object... more) {
    Properties given = new Properties();
    given.put("bootstrap.servers", asked.get("broker").asText());
    given.put("default.api.timeout.ms", "120000");
    given.put("request.timeout.ms", "60000");
    for (int i = 0; i < more.length; i += 2) given.put(more[i], more[i + 1]);
    return given;
  }

  static TopicPartition partition(JsonNode asked) {
    String name = asked.get("partition").asText();
    int dash = name.lastIndexOf('-');
    return new TopicPartition(name.substring(0, dash), Integer.parseInt(name.substring(dash + 1)));
  }

  static JsonNode format(JsonNode asked) {
    String[] words = {"format", "-t", asked.get("cluster").asText(), "-c", asked.get("config").asText()};
    return JSON.getNodeFactory().numberNode(kafka.tools.StorageTool.execute(words, System.err));
  }

  static JsonNode create(JsonNode asked) throws Exception {
    List<NewTopic> topics = new ArrayList<>();
    asked.get("topics").fields().forEachRemaining(topic -> {
      Map<String, String> config = new HashMap<>();
      topic.getValue().get("config").fields().forEachRemaining(each -> config.put(each.getKey(), each.getValue().asText()));
      int partitions = topic.getValue().get("partitions").asInt();
      topics.add(new NewTopic(topic.getKey(), partitions, (short) 1).configs(config));
    });
    try (Admin admin = Admin.create(client(asked))) {
      admin.createTopics(topics).all().get();
    }
    return JSON.nullNode();
  }

  /** Producers whose transactions stay open until this process ends: closing one would abort it. */
  static final List<KafkaProducer<byte[], byte[]>> UNDECIDED = new ArrayList<>();

  static KafkaProducer<byte[], byte[]> producer(JsonNode asked) {
    Properties config = client(asked, "compression.type", asked.get("codec").asText(), "linger.ms", "50",
        "max.block.ms", "300000", "delivery.timeout.ms", "300000");
    if (asked.hasNonNull("id")) config.put("transactional.id", asked.get("id").asText());
    if (asked.hasNonNull("id")) config.put("transaction.timeout.ms", "900000");
    return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
  }

  /**
   * The offsets that the records got. With an `id`: in a transaction, which is committed or aborted; where `commit` is
   * null, neither.
   */
  static JsonNode produce(JsonNode asked) throws Exception {
    boolean transactional = asked.hasNonNull("id");
    KafkaProducer<byte[], byte[]> producer = producer(asked);
    if (transactional) producer.initTransactions();
    if (transactional) producer.beginTransaction();
    ArrayNode offsets = sent(producer, asked);
    if (transactional && asked.get("commit").isNull()) {
      UNDECIDED.add(producer);
      return offsets;
    }
    if (transactional && asked.get("commit").asBoolean()) producer.commitTransaction();
    else if (transactional) producer.abortTransaction();
    producer.close();
    if (transactional) waitForMarker(asked, offsets.get(0).asLong());
    return offsets;
  }

  /** A coordinator answers when it has decided, and has the marker written a little later. */
  static void waitForMarker(JsonNode asked, long firstOffset) throws Exception {
    long deadline = System.nanoTime() + PATIENCE.toNanos();
    try (Admin admin = Admin.create(client(asked))) {
      while (isOpen(admin, partition(asked), firstOffset)) {
        if (System.nanoTime() > deadline) throw new IllegalStateException("no marker for " + firstOffset);
        Thread.sleep(10);
      }
    }
  }

  static boolean isOpen(Admin admin, TopicPartition partition, long firstOffset) throws Exception {
    for (JsonNode each : producers(admin, partition)) if (each.get(5).asLong() == firstOffset) return true;
    return false;
  }

  static ArrayNode sent(KafkaProducer<byte[], byte[]> producer, JsonNode asked) throws Exception {
    TopicPartition partition = partition(asked);
    ArrayNode offsets = JSON.createArrayNode();
    List<Future<RecordMetadata>> sent = new ArrayList<>();
    for (JsonNode record : asked.get("records")) {
      List<Header> headers = new ArrayList<>();
      for (JsonNode each : record.get(3)) headers.add(new RecordHeader(each.get(0).asText(), each.get(1).binaryValue()));
      sent.add(producer.send(new ProducerRecord<>(partition.topic(), partition.partition(), record.get(0).asLong(),
          record.get(1).binaryValue(), record.get(2).binaryValue(), headers)));
    }
    producer.flush();
    for (Future<RecordMetadata> each : sent) offsets.add(each.get().offset());
    return offsets;
  }

  static JsonNode low(JsonNode asked) throws Exception {
    try (Admin admin = Admin.create(client(asked))) {
      return JSON.getNodeFactory().numberNode(listed(admin, partition(asked), OffsetSpec.earliest()).offset());
    }
  }

  static JsonNode delete(JsonNode asked) throws Exception {
    TopicPartition partition = partition(asked);
    var before = Map.of(partition, RecordsToDelete.beforeOffset(asked.get("before").asLong()));
    try (Admin admin = Admin.create(client(asked))) {
      long low = admin.deleteRecords(before).lowWatermarks().get(partition).get().lowWatermark();
      return JSON.getNodeFactory().numberNode(low);
    }
  }

  /** What a partition looks like from outside: its offsets, its records under both isolation levels, its producers. */
  static JsonNode view(JsonNode asked) throws Exception {
    TopicPartition partition = partition(asked);
    ObjectNode view = JSON.createObjectNode();
    for (String level : new String[] {"read_uncommitted", "read_committed"}) {
      Properties config = client(asked, "isolation.level", level, "auto.offset.reset", "none",
          "fetch.max.wait.ms", "10");
      try (var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
        consumer.assign(List.of(partition));
        long low = consumer.beginningOffsets(List.of(partition)).get(partition);
        long end = consumer.endOffsets(List.of(partition)).get(partition);
        view.put("low", low).put(level.equals("read_committed") ? "stable" : "end", end);
        view.set(level, consumed(consumer, partition, low, end));
        if (level.equals("read_uncommitted")) view.set("times", times(consumer, partition, asked.get("times")));
      }
    }
    try (Admin admin = Admin.create(client(asked))) {
      ListOffsetsResult.ListOffsetsResultInfo latest = listed(admin, partition, OffsetSpec.maxTimestamp());
      view.putArray("latest").add(latest.offset()).add(latest.timestamp());
      view.set("producers", producers(admin, partition));
    }
    return view;
  }

  /**
   * What a client gets of a partition that may be damaged, errors included: offsets and records of both isolation levels,
   * the first record found by seeking, answers about times, producers.
   */
  static JsonNode look(JsonNode asked) {
    TopicPartition partition = partition(asked);
    ObjectNode look = JSON.createObjectNode();
    for (String level : new String[] {"read_uncommitted", "read_committed"}) {
      Properties config = client(asked, "isolation.level", level, "auto.offset.reset", "none", "fetch.max.wait.ms", "10",
          "default.api.timeout.ms", "6000", "request.timeout.ms", "6000");
      ObjectNode found = look.putObject(level);
      try (var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
        consumer.assign(List.of(partition));
        long low = consumer.beginningOffsets(List.of(partition)).get(partition);
        long end = consumer.endOffsets(List.of(partition)).get(partition);
        found.put("low", low).put("end", end);
        try {
          consumeWhatThereIs(consumer, partition, low, end, found);
        } catch (RuntimeException error) {
          found.put("error", error.toString());
        }
        if (level.equals("read_committed")) continue;
        try {
          look.set("times", times(consumer, partition, asked.get("times")));
        } catch (RuntimeException error) {
          look.put("times", error.getClass().getSimpleName());
        }
        ArrayNode seeks = look.putArray("seeks");
        for (JsonNode offset : asked.get("seeks")) seeks.add(firstFrom(consumer, partition, offset.asLong()));
      } catch (RuntimeException error) {
        found.put("error", error.toString());
      }
    }
    try (Admin admin = Admin.create(client(asked, "default.api.timeout.ms", "6000", "request.timeout.ms", "6000"))) {
      look.set("producers", producers(admin, partition));
    } catch (Exception error) {
      look.put("producers", error.toString());
    }
    return look;
  }

  static final long STALL = Duration.ofSeconds(2).toNanos();

  /** As a consumer goes on: up to an error, or up to where nothing more comes. */
  static void consumeWhatThereIs(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long low, long end,
      ObjectNode found) {
    ArrayNode records = found.putArray("records");
    consumer.seek(partition, low);
    long position = low, since = System.nanoTime();
    while (position < end) {
      for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) records.add(described(record));
      if (consumer.position(partition) != position) since = System.nanoTime();
      else if (System.nanoTime() - since > STALL) throw new IllegalStateException("nothing comes after " + position);
      position = consumer.position(partition);
    }
  }

  static String firstFrom(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long offset) {
    try {
      consumer.seek(partition, offset);
      for (long since = System.nanoTime(); System.nanoTime() - since < STALL;)
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) return "" + record.offset();
      return "nothing";
    } catch (RuntimeException error) {
      return error.getClass().getSimpleName();
    }
  }

  static ArrayNode consumed(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long low, long end) {
    ArrayNode records = JSON.createArrayNode();
    long deadline = System.nanoTime() + PATIENCE.toNanos();
    consumer.seek(partition, low);
    while (consumer.position(partition) < end) {
      if (System.nanoTime() > deadline) throw new IllegalStateException("no more after " + consumer.position(partition));
      for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) records.add(described(record));
    }
    return records;
  }

  static ArrayNode described(ConsumerRecord<byte[], byte[]> record) {
    ArrayNode headers = JSON.createArrayNode();
    for (Header header : record.headers()) headers.addArray().add(header.key()).add(header.value());
    ArrayNode described = JSON.createArrayNode().add(record.offset()).add(record.timestamp());
    return described.add(record.key()).add(record.value()).add(headers);
  }

  static ArrayNode times(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, JsonNode asked) {
    ArrayNode answers = JSON.createArrayNode();
    for (JsonNode time : asked) {
      OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, time.asLong())).get(partition);
      ArrayNode answer = found == null ? null : JSON.createArrayNode().add(found.offset()).add(found.timestamp());
      answers.addArray().add(time.asLong()).add(answer);
    }
    return answers;
  }

  static ListOffsetsResult.ListOffsetsResultInfo listed(Admin admin, TopicPartition partition, OffsetSpec what)
      throws Exception {
    return admin.listOffsets(Map.of(partition, what)).partitionResult(partition).get();
  }

  static ArrayNode producers(Admin admin, TopicPartition partition) throws Exception {
    ArrayNode found = JSON.createArrayNode();
    for (ProducerState each : admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers()) {
      ArrayNode row = found.addArray().add(each.producerId()).add(each.producerEpoch()).add(each.lastSequence());
      row.add(each.lastTimestamp()).add(each.coordinatorEpoch().orElse(-1));
      row.add(each.currentTransactionStartOffset().orElse(-1));
    }
    return found;
  }
}

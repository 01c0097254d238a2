import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.controller.QuorumFeatures;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Settings: what the version of Kafka on the class path takes, as a line of JSON.
 *
 * The smallest value of each setting of a topic, and of a broker's logs, null where there is none; and the levels of
 * each feature.
 */
public class Settings {
  static final ObjectMapper JSON = new ObjectMapper();
  static final Pattern LEAST = Pattern.compile("\\[(-?\\d+),\\.\\.\\..*");

  public static void main(String[] arguments) throws Exception {
    ObjectNode found = JSON.createObjectNode();
    ObjectNode settings = found.putObject("settings");
    LogConfig.configKeys().forEach((name, key) -> put(settings, key));
    Class<?> broker = Class.forName("org.apache.kafka.server.config.AbstractKafkaConfig");
    ConfigDef definition = (ConfigDef) broker.getField("CONFIG_DEF").get(null);
    definition.configKeys().values().stream().filter(key -> key.name.startsWith("log.")).forEach(key -> put(settings, key));
    ObjectNode features = found.putObject("features");
    for (Method method : QuorumFeatures.class.getMethods()) {
      // Its name is another one in each version.
      if (method.getReturnType() == Map.class && method.getParameterCount() == 1) {
        ((Map<?, ?>) method.invoke(null, false)).forEach((name, range) -> features.put("" + name, "" + range));
      }
    }
    System.out.println(JSON.writeValueAsString(found));
  }

  static void put(ObjectNode settings, ConfigDef.ConfigKey key) {
    Matcher range = LEAST.matcher("" + key.validator);
    settings.put(key.name, range.matches() ? Long.valueOf(range.group(1)) : null);
  }
}

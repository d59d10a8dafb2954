import java.util.Map;
import java.util.ServiceLoader;
import org.apache.kafka.common.config.ConfigTransformer;
import org.apache.kafka.common.config.provider.ConfigProvider;

/** Print the values that Kafka Connect resolves: arguments are the provider's region, then one value after the other. */
class Resolved {
    public static void main(String[] arguments) throws Exception {
        try (ConfigProvider provider = ServiceLoader.load(ConfigProvider.class).stream()
                .filter(each -> each.type().getName().startsWith("masscomm.")).findFirst().orElseThrow().get()) {
            provider.configure(Map.of("region", arguments[0]));
            ConfigTransformer transformer = new ConfigTransformer(Map.of("secretsmanager", provider));
            for (int argument = 1; argument < arguments.length; argument++) {
                String said;
                try {
                    said = transformer.transform(Map.of("value", arguments[argument])).data().get("value");
                } catch (RuntimeException error) {
                    said = error.getMessage();
                }
                System.out.println(said);
            }
        }
    }
}

package masscomm.connect;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.config.ConfigData;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.provider.ConfigProvider;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.protocols.jsoncore.JsonNode;
import software.amazon.awssdk.protocols.jsoncore.JsonNodeParser;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.secretsmanager.SecretsManagerClient;

/**
 * Fields of secrets in AWS Secrets Manager, for a connector's configuration: ${secretsmanager:NAME:FIELD} is what the JSON
 * object in the secret NAME says under FIELD. The worker asks, as the role it runs under, each time it starts a task; the
 * configuration itself, and whoever reads it, never has the value. Parameter: region.
 */
public final class SecretsManagerConfigProvider implements ConfigProvider {
    private SecretsManagerClient client;

    @Override
    public void configure(Map<String, ?> parameters) {
        if (!(parameters.get("region") instanceof String region) || region.isBlank()) {
            throw new ConfigException("the parameter region says where the secrets are");
        }
        client = SecretsManagerClient.builder().region(Region.of(region)).build();
    }

    @Override
    public ConfigData get(String name) {
        Map<String, String> found = new HashMap<>();
        fields(name).forEach((field, value) -> found.put(field, text(value)));
        return new ConfigData(found);
    }

    @Override
    public ConfigData get(String name, Set<String> wanted) {
        Map<String, JsonNode> fields = fields(name);
        Map<String, String> found = new HashMap<>();
        for (String field : wanted) {
            JsonNode value = fields.get(field);
            if (value == null || value.isNull()) {
                throw new ConfigException("the secret " + name + " has no field " + field);
            }
            found.put(field, text(value));
        }
        return new ConfigData(found);
    }

    /** What is wrong is said without a word of the secret's. */
    private Map<String, JsonNode> fields(String name) {
        String secret;
        try {
            secret = client.getSecretValue(request -> request.secretId(name)).secretString();
        } catch (SdkException error) {
            throw new ConfigException("the secret " + name + " cannot be had: " + error.getMessage());
        }
        try {
            return JsonNodeParser.create().parse(secret == null ? "" : secret).asObject();
        } catch (RuntimeException error) {
            throw new ConfigException("the secret " + name + " is no JSON object");
        }
    }

    private static String text(JsonNode value) {
        return value.isNumber() ? value.asNumber() : value.isString() ? value.asString() : value.toString();
    }

    @Override
    public void close() {
        if (client != null) {
            client.close();
        }
    }
}

package masscomm.connect;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * Gives the record of a TRUNCATE the key {"truncated": true}. Debezium produces it without a key, which a compacted topic
 * refuses, and then the connector's task ends. All other records of Debezium have a key.
 */
public final class TruncateKey<R extends ConnectRecord<R>> implements Transformation<R> {
    private static final Map<String, Boolean> KEY = Map.of("truncated", true);

    @Override
    public R apply(R record) {
        return record.key() != null
            ? record
            : record.newRecord(
                record.topic(),
                record.kafkaPartition(),
                null,
                KEY,
                record.valueSchema(),
                record.value(),
                record.timestamp());
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void configure(Map<String, ?> settings) {}

    @Override
    public void close() {}
}

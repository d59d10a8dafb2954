import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;

/** Reassign BOOTSTRAP 2,1 TOPIC…: every partition on these brokers, led by the first; waits until all are in sync. */
class Reassign {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        List<Integer> brokers = Arrays.stream(arguments[1].split(",")).map(Integer::valueOf).toList();
        List<String> topics = Arrays.asList(arguments).subList(2, arguments.length);
        try (Admin admin = Admin.create(settings)) {
            Map<TopicPartition, Optional<NewPartitionReassignment>> wanted = new HashMap<>();
            admin.describeTopics(topics).allTopicNames().get().forEach((name, topic) -> {
                for (TopicPartitionInfo partition : topic.partitions()) {
                    wanted.put(
                            new TopicPartition(name, partition.partition()),
                            Optional.of(new NewPartitionReassignment(brokers)));
                }
            });
            admin.alterPartitionReassignments(wanted).all().get();
            while (!admin.listPartitionReassignments().reassignments().get().isEmpty()) {
                Thread.sleep(100);
            }
            admin.electLeaders(org.apache.kafka.common.ElectionType.PREFERRED, wanted.keySet()).partitions().get();
            System.out.println(topics.stream().collect(Collectors.joining(" ")));
        }
    }
}

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.opensearch.analysis.common.CommonAnalysisPlugin;
import org.opensearch.common.settings.Settings;
import org.opensearch.index.reindex.ReindexPlugin;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.painless.PainlessPlugin;
import org.opensearch.transport.Netty4Plugin;

/** An OpenSearch node started as a library: the distribution's launcher refuses root, the node itself does not. */
public final class OpenSearchNode extends Node {

    private OpenSearchNode(Path home) {
        super(
            InternalSettingsPreparer.prepareEnvironment(
                Settings.builder().put("path.home", home).build(), Map.of(), home.resolve("config"), () -> "masscomm"),
            List.of(Netty4Plugin.class, PainlessPlugin.class, ReindexPlugin.class, CommonAnalysisPlugin.class),
            true);
    }

    /** args[0]: a folder that holds config/opensearch.yml. Runs until the process is told to end. */
    public static void main(String[] args) throws Exception {
        Node node = new OpenSearchNode(Path.of(args[0]));
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                node.close();
            } catch (Exception error) {
                error.printStackTrace();
            }
            ended.countDown();
        }));
        node.start();
        ended.await();
    }
}

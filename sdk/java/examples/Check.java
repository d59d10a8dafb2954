import java.util.List;
import java.util.Map;
import masscomm.client.Client;
import masscomm.client.Types.DryRunChannel;
import masscomm.client.Types.DryRunReason;
import masscomm.client.Types.SendRequest;

class Check {
    public static void main(String[] args) {
        Client client = new Client(System.getenv("MASSCOMM_API_URL"), System.getenv("MASSCOMM_API_KEY"));
        SendRequest request = new SendRequest()
                .type("announcement")
                .clubId(1)
                .toUsers(List.of(42L, 43L))
                .data(Map.of("title", "Hello", "body", "It works."));
        for (DryRunChannel each : client.dryRun(request).channels()) {
            System.out.println(each.channel() + " " + each.deliverable() + " of " + each.requested());
            for (DryRunReason reason : each.reasons()) {
                System.out.println(reason.countTotal() + " " + reason.status() + " " + reason.reason());
            }
        }
    }
}

import java.util.List;
import java.util.Map;
import masscomm.client.Client;
import masscomm.client.Types.SendRequest;

class Send {
    public static void main(String[] args) {
        Client client = new Client(System.getenv("MASSCOMM_API_URL"), System.getenv("MASSCOMM_API_KEY"));
        SendRequest request = new SendRequest()
                .type("announcement")
                .clubId(1)
                .toUsers(List.of(42L))
                .data(Map.of("title", "Hello", "body", "It works."));
        System.out.println(client.send(request).sendId());
    }
}

import java.util.List;
import java.util.Map;
import masscomm.client.Client;
import masscomm.client.Types.AcceptedEvent;
import masscomm.client.Types.EventFields;

class Event {
    public static void main(String[] args) {
        Client client = new Client(System.getenv("MASSCOMM_API_URL"), System.getenv("MASSCOMM_API_KEY"));
        EventFields event = new EventFields()
                .eventId("match-4711")
                .type("match.finished")
                .clubId(1)
                .data(Map.of("goals", List.of(2, 1)));
        for (AcceptedEvent each : client.reportEvents(List.of(event)).events()) {
            System.out.println(each.eventId() + " " + each.status());
        }
    }
}

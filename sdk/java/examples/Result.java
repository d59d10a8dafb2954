import masscomm.client.Client;
import masscomm.client.Types.RecipientBody;
import masscomm.client.Types.SendBody;

class Result {
    public static void main(String[] args) {
        Client client = new Client(System.getenv("MASSCOMM_API_URL"), System.getenv("MASSCOMM_API_KEY"));
        for (SendBody send : client.follow(args[0])) {
            System.out.println(send.status() + " " + send.requested());
        }
        for (RecipientBody row : client.recipients(args[0])) {
            System.out.println(row.userId() + " " + row.channel() + " " + row.status());
        }
    }
}

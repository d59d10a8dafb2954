import masscomm.client.ApiError;
import masscomm.client.Client;

class Cancel {
    public static void main(String[] args) {
        Client client = new Client(System.getenv("MASSCOMM_API_URL"), System.getenv("MASSCOMM_API_KEY"));
        try {
            System.out.println(client.cancel(args[0]).status());
        } catch (ApiError error) {
            System.out.println(error.status() + " " + error.detail());
        }
    }
}

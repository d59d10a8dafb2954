import java.util.Map;
import masscomm.client.Client;
import masscomm.client.Types.EffectivePreference;
import masscomm.client.Types.PreferencesRequest;

class Preferences {
    public static void main(String[] args) {
        Client client = new Client(System.getenv("MASSCOMM_API_URL"), System.getenv("MASSCOMM_API_KEY"));
        PreferencesRequest rules = new PreferencesRequest().categories(Map.of("news", Map.of("push", false)));
        for (EffectivePreference each : client.setPreferences(42, rules).effective()) {
            String wanted = each.wanted() ? "yes" : "no";
            System.out.println(each.category() + " " + each.channel() + " " + wanted);
        }
    }
}

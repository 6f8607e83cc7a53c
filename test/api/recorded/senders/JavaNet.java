// java JavaNet.java: java.net.http brings no forms, so this is the one that everybody writes
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;

class JavaNet {
  public static void main(String[] args) throws Exception {
    var body = "grant_type=none&client_id=" + encoded(System.getenv("CLIENT_ID"))
        + "&client_secret=" + encoded(System.getenv("CLIENT_SECRET"))
        + "&scope=" + encoded("push_notifications reports");
    var post = HttpRequest.newBuilder(URI.create(System.getenv("TOKEN_URL")))
        .header("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8")
        .POST(HttpRequest.BodyPublishers.ofString(body)).build();
    HttpClient.newHttpClient().send(post, HttpResponse.BodyHandlers.discarding());
  }

  static String encoded(String value) {
    return URLEncoder.encode(value, StandardCharsets.UTF_8);
  }
}

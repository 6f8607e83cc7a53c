// java Callers <client>: what the client is answered, as one line of JSON
import java.io.IOException;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

class Callers {
  static final String API = System.getenv("API");
  static final String CLIENT = System.getenv("CLIENT_TOKEN");

  record Answer(int status, String text) {}

  interface Post {
    Answer send(String url, Map<String, String> headers, String body) throws Exception;
  }

  static Answer javaNet(String url, Map<String, String> headers, String body) throws Exception {
    var request = HttpRequest.newBuilder(URI.create(url)).POST(HttpRequest.BodyPublishers.ofString(body));
    headers.forEach(request::header);
    var answer = HttpClient.newHttpClient().send(request.build(), HttpResponse.BodyHandlers.ofString());
    return new Answer(answer.statusCode(), answer.body());
  }

  static Answer urlConnection(String url, Map<String, String> headers, String body) throws IOException {
    var connection = (HttpURLConnection) URI.create(url).toURL().openConnection();
    headers.forEach(connection::setRequestProperty);
    var bytes = body.getBytes(StandardCharsets.UTF_8);
    connection.setDoOutput(true);
    connection.setFixedLengthStreamingMode(bytes.length);
    try (OutputStream out = connection.getOutputStream()) {
      out.write(bytes);
    }
    var status = connection.getResponseCode();
    try (var in = status < 400 ? connection.getInputStream() : connection.getErrorStream()) {
      return new Answer(status, new String(in.readAllBytes(), StandardCharsets.UTF_8));
    }
  }

  static String told(Post post) throws Exception {
    var form = Map.of("grant_type", "none", "client_id", System.getenv("CLIENT_ID"), "client_secret",
        System.getenv("CLIENT_SECRET"), "scope", "push_notifications enrichments");
    var fields = form.entrySet().stream()
        .map(one -> one.getKey() + "=" + URLEncoder.encode(one.getValue(), StandardCharsets.UTF_8))
        .collect(Collectors.joining("&"));
    var minted = post.send(API + "/oauth/access_token", Map.of("Content-Type", "application/x-www-form-urlencoded"), fields);
    var found = Pattern.compile("\"access_token\":\"([^\"]*)\"").matcher(minted.text);
    var token = found.find() ? found.group(1) : "";
    var headers = Map.of("Content-Type", "application/json", "Authorization", "Bearer " + token);
    var event = """
        {"client_token": "%s", "platform_id": "Café 🎬", "segments": ["x"], "notify": false}""";
    var published = post.send(API + "/enrichments", headers, event.formatted(CLIENT));
    var tooLong = post.send(API + "/enrichments", headers, " ".repeat(5_000_000));
    var unwanted = post.send(API + "/push_notifications/test?client_token=" + CLIENT, headers, "{\"url\": \"x\"}");
    return "{\"token\": \"%s\", \"statuses\": [%d, %d, %d, %d]}"
        .formatted(token, minted.status, published.status, tooLong.status, unwanted.status);
  }

  public static void main(String[] args) throws Exception {
    for (var name : args) System.out.println(told(name.equals("java.net.http") ? Callers::javaNet : Callers::urlConnection));
    // Threads of a client may live on for a minute.
    System.exit(0);
  }
}

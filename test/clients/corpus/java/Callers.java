// java -cp 'lib/*' Callers.java <client>: what the client is answered, as one line of JSON
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import okhttp3.MediaType;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.RequestBody;
import org.springframework.http.client.SimpleClientHttpRequestFactory;
import org.springframework.security.oauth2.client.endpoint.OAuth2ClientCredentialsGrantRequest;
import org.springframework.security.oauth2.client.endpoint.RestClientClientCredentialsTokenResponseClient;
import org.springframework.security.oauth2.client.registration.ClientRegistration;
import org.springframework.security.oauth2.core.AuthorizationGrantType;
import org.springframework.security.oauth2.core.ClientAuthenticationMethod;
import org.springframework.web.client.RestClient;
import org.springframework.web.reactive.function.client.WebClient;

class Callers {
  static final String API = System.getenv("API");
  static final String ID = System.getenv("CLIENT_ID");
  static final String SECRET = System.getenv("CLIENT_SECRET");
  static final String CLIENT = System.getenv("CLIENT_TOKEN");
  static final ObjectMapper JSON = new ObjectMapper();

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

  static Answer okHttp(String url, Map<String, String> headers, String body) throws Exception {
    var bytes = RequestBody.create(body.getBytes(StandardCharsets.UTF_8), MediaType.get(headers.get("Content-Type")));
    var request = new Request.Builder().url(url).post(bytes);
    headers.forEach(request::header);
    try (var answer = new OkHttpClient().newCall(request.build()).execute()) {
      return new Answer(answer.code(), answer.body().string());
    }
  }

  static Answer restClient(String url, Map<String, String> headers, String body) {
    return RestClient.builder().requestFactory(new SimpleClientHttpRequestFactory()).build().post().uri(URI.create(url))
        .headers(all -> all.setAll(headers)).body(body.getBytes(StandardCharsets.UTF_8))
        .exchange((request, answer) ->
            new Answer(answer.getStatusCode().value(), new String(answer.getBody().readAllBytes(), StandardCharsets.UTF_8)));
  }

  static Answer webClient(String url, Map<String, String> headers, String body) {
    return WebClient.create().post().uri(URI.create(url)).headers(all -> all.setAll(headers))
        .bodyValue(body.getBytes(StandardCharsets.UTF_8))
        .exchangeToMono(answer ->
            answer.bodyToMono(String.class).map(text -> new Answer(answer.statusCode().value(), text)))
        .block();
  }

  static Map<String, Object> statuses(Post post) throws Exception {
    var form = Map.of("grant_type", "none", "client_id", ID, "client_secret", SECRET, "scope", "push_notifications enrichments");
    var fields = form.entrySet().stream().map(one -> one.getKey() + "=" + URLEncoder.encode(one.getValue(), StandardCharsets.UTF_8));
    var minted = post.send(API + "/oauth/access_token", Map.of("Content-Type", "application/x-www-form-urlencoded"),
        String.join("&", fields.toList()));
    var token = JSON.readTree(minted.text).get("access_token").asText();
    var headers = Map.of("Content-Type", "application/json", "Authorization", "Bearer " + token);
    var event = JSON.writeValueAsString(
        Map.of("client_token", CLIENT, "platform_id", "Café 🎬", "segments", List.of("x"), "notify", false));
    var published = post.send(API + "/enrichments", headers, event);
    var tooLong = post.send(API + "/enrichments", headers, " ".repeat(5_000_000));
    var unwanted = post.send(API + "/push_notifications/test?client_token=" + CLIENT, headers, "{\"url\": \"x\"}");
    return Map.of("token", token, "statuses", List.of(minted.status, published.status, tooLong.status, unwanted.status));
  }

  static Map<String, Object> spring(ClientAuthenticationMethod method) {
    var registration = ClientRegistration.withRegistrationId("service").clientId(ID).clientSecret(SECRET)
        .clientAuthenticationMethod(method).authorizationGrantType(AuthorizationGrantType.CLIENT_CREDENTIALS)
        .scope("push_notifications", "enrichments").tokenUri(API + "/oauth/access_token").build();
    var client = new RestClientClientCredentialsTokenResponseClient();
    client.setParametersCustomizer(parameters -> parameters.set("grant_type", "none"));
    var answer = client.getTokenResponse(new OAuth2ClientCredentialsGrantRequest(registration));
    return Map.of("token", answer.getAccessToken().getTokenValue());
  }

  public static void main(String[] args) throws Exception {
    for (var name : args) System.out.println(JSON.writeValueAsString(told(name)));
    // Threads of a client may live on for a minute.
    System.exit(0);
  }

  private static Object told(String name) throws Exception {
    return switch (name) {
      case "Spring Security, Basic" -> spring(ClientAuthenticationMethod.CLIENT_SECRET_BASIC);
      case "Spring Security, fields" -> spring(ClientAuthenticationMethod.CLIENT_SECRET_POST);
      case "Spring RestClient" -> statuses(Callers::restClient);
      case "Spring WebClient" -> statuses(Callers::webClient);
      case "OkHttp" -> statuses(Callers::okHttp);
      case "java.net.http" -> statuses(Callers::javaNet);
      default -> throw new IllegalArgumentException(name);
    };
  }
}

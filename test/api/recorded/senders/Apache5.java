// java -cp httpclient5.jar:httpcore5.jar:slf4j-api.jar Apache5.java form|multipart|strict|extended
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.hc.client5.http.classic.methods.HttpPost;
import org.apache.hc.client5.http.entity.UrlEncodedFormEntity;
import org.apache.hc.client5.http.entity.mime.HttpMultipartMode;
import org.apache.hc.client5.http.entity.mime.MultipartEntityBuilder;
import org.apache.hc.client5.http.impl.classic.HttpClients;
import org.apache.hc.core5.http.message.BasicNameValuePair;

class Apache5 {
  public static void main(String[] args) throws Exception {
    var fields = List.of(
        Map.entry("grant_type", "none"),
        Map.entry("client_id", System.getenv("CLIENT_ID")),
        Map.entry("client_secret", System.getenv("CLIENT_SECRET")),
        Map.entry("scope", "push_notifications reports"));
    var post = new HttpPost(System.getenv("TOKEN_URL"));
    if (args[0].equals("form")) {
      post.setEntity(new UrlEncodedFormEntity(
          fields.stream().map(f -> new BasicNameValuePair(f.getKey(), f.getValue())).toList()));
    } else {
      var form = MultipartEntityBuilder.create();
      switch (args[0]) {
        case "strict" -> form.setMode(HttpMultipartMode.STRICT);
        case "extended" -> form.setMode(HttpMultipartMode.EXTENDED).setCharset(StandardCharsets.ISO_8859_1);
        default -> {}
      }
      for (var field : fields) form.addTextBody(field.getKey(), field.getValue());
      post.setEntity(form.build());
    }
    try (var client = HttpClients.createDefault()) {
      client.execute(post, answer -> answer.getCode());
    }
  }
}

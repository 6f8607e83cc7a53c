// java -cp httpclient.jar:httpcore.jar:httpmime.jar:commons-logging.jar:commons-codec.jar Apache4.java form|strict|browser
import java.util.List;
import java.util.Map;
import org.apache.http.client.entity.UrlEncodedFormEntity;
import org.apache.http.client.methods.HttpPost;
import org.apache.http.entity.mime.HttpMultipartMode;
import org.apache.http.entity.mime.MultipartEntityBuilder;
import org.apache.http.impl.client.HttpClients;
import org.apache.http.message.BasicNameValuePair;

class Apache4 {
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
      if (args[0].equals("browser")) form.setMode(HttpMultipartMode.BROWSER_COMPATIBLE);
      for (var field : fields) form.addTextBody(field.getKey(), field.getValue());
      post.setEntity(form.build());
    }
    try (var client = HttpClients.createDefault(); var answer = client.execute(post)) {
      answer.getStatusLine();
    }
  }
}

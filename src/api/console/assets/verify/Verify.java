import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.Map;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public final class Verify {
  /** headers: by their names in lower case; body: before anything parses it; secret: whsec_... */
  public static boolean isGenuine(Map<String, String> headers, byte[] body, String secret)
      throws GeneralSecurityException {
    String id = headers.getOrDefault("webhook-id", "");
    String timestamp = headers.getOrDefault("webhook-timestamp", "");
    // Older than 5 minutes: somebody may have kept it, to send it again.
    if (!timestamp.matches("\\d{1,12}")
        || Math.abs(System.currentTimeMillis() / 1000 - Long.parseLong(timestamp)) > 300) {
      return false;
    }
    Mac mac = Mac.getInstance("HmacSHA256");
    mac.init(new SecretKeySpec(Base64.getDecoder().decode(secret.replaceFirst("^whsec_", "")), "HmacSHA256"));
    mac.update((id + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8));
    String wanted = "v1," + Base64.getEncoder().encodeToString(mac.doFinal(body));
    for (String given : headers.getOrDefault("webhook-signature", "").split(" ")) {
      if (MessageDigest.isEqual(
          wanted.getBytes(StandardCharsets.UTF_8), given.getBytes(StandardCharsets.UTF_8))) {
        return true;
      }
    }
    return false;
  }
}

// SIGNING_SECRETS="whsec_..." PORT=4000 mvn spring-boot:run    (Java 17 or newer)
package receiver;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.*;
import java.security.*;
import java.time.Instant;
import java.util.*;
import java.util.concurrent.*;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.*;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

@SpringBootApplication
@RestController
public class Receiver {
    // Several, separated by spaces, while you change from one secret to the next. With an empty key anybody could sign.
    private static final List<byte[]> keys = Arrays.stream(System.getenv().getOrDefault("SIGNING_SECRETS", "").split("\\s+"))
        .map(Receiver::key).filter(key -> key.length >= 24).toList();
    // In production: a table with webhook-id as its primary key, written before the answer.
    private final Set<String> seen = ConcurrentHashMap.newKeySet();
    private final JsonMapper json = new JsonMapper();
    private final ExecutorService workers = Executors.newFixedThreadPool(8);

    public static void main(String[] args) {
        if (keys.isEmpty()) {
            System.err.println("SIGNING_SECRETS has no signing secret (whsec_...)");
            System.exit(1);
        }
        SpringApplication.run(Receiver.class, "--server.address=127.0.0.1", "--server.port=" + System.getenv("PORT"));
    }

    /** @param stream the bytes as they were sent, which an object made of them no longer has: they are signed */
    @PostMapping("/notifications")
    ResponseEntity<Void> receive(
            @RequestHeader(name = "webhook-id", defaultValue = "") String id,
            @RequestHeader(name = "webhook-timestamp", defaultValue = "") String time,
            @RequestHeader(name = "webhook-signature", defaultValue = "") String signatures,
            InputStream stream) throws IOException {
        byte[] body = stream.readNBytes(16_385);
        if (body.length > 16_384) return ResponseEntity.status(413).build(); // a notification has some hundred bytes
        if (!verified(id, time, signatures, body)) return ResponseEntity.status(401).build();
        JsonNode notification = json.readTree(body);
        // Your work: ask the platform for the segments of this video.
        if (seen.add(id) && "asset-update".equals(notification.path("event").asString("")))
            workers.submit(() -> System.out.println("updated: " + notification.path("platform_id").asString("")));
        return ResponseEntity.noContent().build();
    }

    /** The bytes of a secret; none where it is cut off. */
    static byte[] key(String secret) {
        try {
            return Base64.getDecoder().decode(secret.replace("whsec_", ""));
        } catch (IllegalArgumentException e) {
            return new byte[0];
        }
    }

    /** Whether one of the secrets made one of the signatures, at most 5 minutes ago. */
    static boolean verified(String id, String time, String signatures, byte[] body) {
        if (id.isEmpty() || !time.matches("\\d{1,12}")) return false;
        if (Math.abs(Instant.now().getEpochSecond() - Long.parseLong(time)) > 300) return false;
        return keys.stream().anyMatch(key -> {
            byte[] expected = ("v1," + hmac(key, id + "." + time + ".", body)).getBytes(UTF_8);
            return Arrays.stream(signatures.split(" ")).anyMatch(s -> MessageDigest.isEqual(s.getBytes(UTF_8), expected));
        });
    }

    static String hmac(byte[] key, String before, byte[] body) {
        try {
            var mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            mac.update(before.getBytes(UTF_8));
            return Base64.getEncoder().encodeToString(mac.doFinal(body));
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException(e);
        }
    }
}

// SIGNING_SECRETS="whsec_..." PORT=4000 mvn spring-boot:run    (Java 17 or newer)
package receiver;

import static java.nio.charset.StandardCharsets.UTF_8;

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

@SpringBootApplication
@RestController
public class Receiver {
    // Several, separated by spaces, while you change from one secret to the next. With an empty key anybody could sign.
    private static final List<byte[]> keys = Arrays.stream(System.getenv("SIGNING_SECRETS").replace("whsec_", "").split("\\s+"))
        .map(Base64.getDecoder()::decode).filter(key -> key.length >= 24).toList();
    // In production: a table with webhook-id as its primary key, written before the answer.
    private final Set<String> seen = ConcurrentHashMap.newKeySet();
    private final ExecutorService workers = Executors.newFixedThreadPool(8);

    public static void main(String[] args) {
        SpringApplication.run(Receiver.class, "--server.address=127.0.0.1", "--server.port=" + System.getenv("PORT"));
    }

    /** @param body the bytes as they were sent, which an object made of them no longer has: they are signed */
    @PostMapping("/notifications")
    ResponseEntity<Void> receive(
            @RequestHeader(name = "webhook-id", defaultValue = "") String id,
            @RequestHeader(name = "webhook-timestamp", defaultValue = "") String time,
            @RequestHeader(name = "webhook-signature", defaultValue = "") String signatures,
            @RequestBody byte[] body) {
        if (!verified(id, time, signatures, body)) return ResponseEntity.status(401).build();
        // Your work: parse the body, then ask the platform for the segments of this video.
        if (seen.add(id)) workers.submit(() -> System.out.println("updated: " + new String(body, UTF_8)));
        return ResponseEntity.noContent().build();
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

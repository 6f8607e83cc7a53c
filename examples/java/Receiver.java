// SIGNING_SECRETS="whsec_..." PORT=4000 java Receiver.java    (Java 17 or newer)
import static java.nio.charset.StandardCharsets.UTF_8;

import com.sun.net.httpserver.*;
import java.net.InetSocketAddress;
import java.security.*;
import java.time.Instant;
import java.util.*;
import java.util.concurrent.*;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

class Receiver {
    // In production: a table with webhook-id as its primary key, written before the answer.
    static final Set<String> seen = ConcurrentHashMap.newKeySet();
    // Several, separated by spaces, while you change from one secret to the next. With an empty key anybody could sign.
    static final List<byte[]> keys = Arrays.stream(System.getenv().getOrDefault("SIGNING_SECRETS", "").split("\\s+"))
        .map(Receiver::key).filter(key -> key.length >= 24).toList();
    static final ExecutorService workers = Executors.newFixedThreadPool(8);

    static final Pattern update = Pattern.compile("\"event\"\\s*:\\s*\"asset-update\"");

    public static void main(String[] args) throws Exception {
        if (keys.isEmpty()) {
            System.err.println("SIGNING_SECRETS has no signing secret (whsec_...)");
            System.exit(1);
        }
        var here = new InetSocketAddress("127.0.0.1", Integer.parseInt(System.getenv("PORT")));
        var server = HttpServer.create(here, 0);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/notifications", exchange -> {
            byte[] body = exchange.getRequestBody().readNBytes(16_384);
            boolean valid = verified(exchange.getRequestHeaders(), body);
            boolean isNew = valid && seen.add(exchange.getRequestHeaders().getFirst("webhook-id"));
            exchange.sendResponseHeaders(valid ? 204 : 401, -1);
            exchange.close();
            String text = new String(body, UTF_8);
            // Your work: parse the body, then ask the platform for the segments of this video. Other events are not for it.
            if (isNew && update.matcher(text).find()) workers.submit(() -> System.out.println("updated: " + text));
        });
        server.start();
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
    static boolean verified(Headers headers, byte[] body) {
        String id = headers.getFirst("webhook-id"), time = headers.getFirst("webhook-timestamp");
        String signatures = headers.getFirst("webhook-signature");
        if (id == null || signatures == null || time == null || !time.matches("\\d{1,12}")) return false;
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

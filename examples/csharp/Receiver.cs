// SIGNING_SECRETS="whsec_..." dotnet run --urls http://127.0.0.1:4000
using System.Collections.Concurrent;
using System.Security.Cryptography;
using System.Text;
using System.Text.Json;

// Several, separated by spaces, while you change from one secret to the next.
var keys = (Environment.GetEnvironmentVariable("SIGNING_SECRETS") ?? "").Trim().Split(' ')
    .Select(Signature.Key).Where(key => key.Length >= 24).ToArray(); // with an empty key anybody could sign
if (keys.Length == 0)
{
    Console.Error.WriteLine("SIGNING_SECRETS has no signing secret (whsec_...)");
    Environment.Exit(1);
}
// In production: a table with webhook-id as its primary key, written before the answer.
var seen = new ConcurrentDictionary<string, bool>();
var app = WebApplication.Create(args);

app.MapPost("/notifications", async (HttpRequest request) =>
{
    using var buffer = new MemoryStream();
    await request.Body.CopyToAsync(buffer); // the bytes as they were sent: what is signed
    var body = buffer.ToArray();
    if (!Signature.Verified(keys, name => request.Headers[name].ToString(), body, DateTimeOffset.UtcNow))
        return Results.Unauthorized();
    if (seen.TryAdd(request.Headers["webhook-id"].ToString(), true))
        _ = Task.Run(() => Work(JsonDocument.Parse(body).RootElement));
    return Results.NoContent();
});
app.Run();

void Work(JsonElement notification)
{
    if (notification.GetProperty("event").GetString() == "asset-update") // ask the platform for its segments
        app.Logger.LogInformation("updated: {Asset}", notification.GetProperty("platform_id").GetString());
}

static class Signature
{
    /// <summary>The bytes of a secret; none where it is cut off.</summary>
    public static byte[] Key(string secret)
    {
        var bytes = new byte[128];
        return Convert.TryFromBase64String(secret.Replace("whsec_", ""), bytes, out var length) ? bytes[..length] : [];
    }

    /// <summary>Whether one of the secrets made one of the signatures, at most 5 minutes ago.</summary>
    public static bool Verified(byte[][] keys, Func<string, string> header, byte[] body, DateTimeOffset now)
    {
        if (!long.TryParse(header("webhook-timestamp"), out var time)) return false;
        if (Math.Abs(now.ToUnixTimeSeconds() - time) > 300) return false;
        var signed = Encoding.UTF8.GetBytes($"{header("webhook-id")}.{time}.").Concat(body).ToArray();
        return keys.Any(key =>
        {
            using var hmac = new HMACSHA256(key);
            var expected = Encoding.UTF8.GetBytes("v1," + Convert.ToBase64String(hmac.ComputeHash(signed)));
            return header("webhook-signature").Split(' ')
                .Any(given => CryptographicOperations.FixedTimeEquals(Encoding.UTF8.GetBytes(given), expected));
        });
    }
}

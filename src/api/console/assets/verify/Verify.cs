using System;
using System.Collections.Generic;
using System.Linq;
using System.Security.Cryptography;
using System.Text;

public static class Verify
{
    /// <param name="headers">by their names in lower case</param>
    /// <param name="body">the bytes of the request's body, before anything parses them</param>
    /// <param name="secret">the signing secret, whsec_...</param>
    public static bool IsGenuine(IReadOnlyDictionary<string, string> headers, byte[] body, string secret)
    {
        var id = headers.GetValueOrDefault("webhook-id", "");
        var timestamp = headers.GetValueOrDefault("webhook-timestamp", "");
        // Older than 5 minutes: somebody may have kept it, to send it again.
        if (!long.TryParse(timestamp, out var seconds)
            || Math.Abs(DateTimeOffset.UtcNow.ToUnixTimeSeconds() - seconds) > 300)
        {
            return false;
        }
        var key = Convert.FromBase64String(secret.StartsWith("whsec_") ? secret["whsec_".Length..] : secret);
        var content = Encoding.UTF8.GetBytes($"{id}.{timestamp}.").Concat(body).ToArray();
        using var hmac = new HMACSHA256(key);
        var wanted = Encoding.UTF8.GetBytes("v1," + Convert.ToBase64String(hmac.ComputeHash(content)));
        return headers.GetValueOrDefault("webhook-signature", "")
            .Split(' ')
            .Any(given => CryptographicOperations.FixedTimeEquals(wanted, Encoding.UTF8.GetBytes(given)));
    }
}

// node node.mjs form|multipart
const fields = {
  grant_type: 'none',
  client_id: process.env.CLIENT_ID,
  client_secret: process.env.CLIENT_SECRET,
  scope: 'push_notifications reports',
};
const multipart = new FormData();
for (const [name, value] of Object.entries(fields)) multipart.append(name, value);
await fetch(process.env.TOKEN_URL, {
  method: 'POST',
  body: process.argv[2] === 'form' ? new URLSearchParams(fields) : multipart,
});

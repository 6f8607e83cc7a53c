# ruby callers.rb Net::HTTP: what the client is answered, as one line of JSON
require 'json'
require 'net/http'

api, id, secret, client = %w[API CLIENT_ID CLIENT_SECRET CLIENT_TOKEN].map { |name| ENV.fetch(name) }
fields = { grant_type: 'none', client_id: id, client_secret: secret, scope: 'push_notifications enrichments' }
minted = Net::HTTP.post_form(URI("#{api}/oauth/access_token"), fields)
token = JSON.parse(minted.body).fetch('access_token')
headers = { 'Content-Type' => 'application/json', 'Authorization' => "Bearer #{token}" }
event = { client_token: client, platform_id: 'Café 🎬', segments: ['x'], notify: false }
answers = [
  minted,
  Net::HTTP.post(URI("#{api}/enrichments"), event.to_json, headers),
  Net::HTTP.post(URI("#{api}/enrichments"), ' ' * 5_000_000, headers),
  Net::HTTP.post(URI("#{api}/push_notifications/test?client_token=#{client}"), '{"url": "x"}', headers)
]
puts({ token: token, statuses: answers.map { |answer| answer.code.to_i } }.to_json)

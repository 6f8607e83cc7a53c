# ruby net_http.rb form|multipart
require 'net/http'

fields = {
  'grant_type' => 'none',
  'client_id' => ENV['CLIENT_ID'],
  'client_secret' => ENV['CLIENT_SECRET'],
  'scope' => 'push_notifications reports'
}
url = URI(ENV['TOKEN_URL'])
post = Net::HTTP::Post.new(url)
post.set_form(fields.to_a, ARGV[0] == 'form' ? 'application/x-www-form-urlencoded' : 'multipart/form-data')
Net::HTTP.start(url.host, url.port) { |http| http.request(post) }

# perl lwp.pl form|multipart
use HTTP::Request::Common;
use LWP::UserAgent;
my @fields = (
  grant_type => 'none', client_id => $ENV{CLIENT_ID}, client_secret => $ENV{CLIENT_SECRET},
  scope => 'push_notifications reports',
);
my @type = $ARGV[0] eq 'form' ? () : (Content_Type => 'form-data');
LWP::UserAgent->new->request(POST $ENV{TOKEN_URL}, @type, Content => \@fields);

package access

import _ "github.com/oauth2-proxy/mockoidc"

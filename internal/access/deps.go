package access

import (
	_ "github.com/coreos/go-oidc/v3/oidc"
	_ "golang.org/x/crypto/acme/autocert"
	_ "golang.org/x/oauth2"
)

package access

import (
	_ "github.com/alexedwards/argon2id"
	_ "github.com/alexedwards/scs/v2"
	_ "github.com/coreos/go-oidc/v3/oidc"
	_ "github.com/go-webauthn/webauthn/webauthn"
	_ "golang.org/x/oauth2"
)

package access

import (
	_ "golang.org/x/crypto/acme/autocert"
)

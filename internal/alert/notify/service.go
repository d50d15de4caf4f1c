package notify

import (
	"errors"
	"io"
	"log"

	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"
)

// quiet is what shoutrrr logs to: it would log addresses.
var quiet = log.New(io.Discard, "", 0)

// open makes a service of a URL, which is not asked anything yet.
func open(s Secret) (service types.Service, err error) {
	defer func() {
		if recover() != nil {
			service, err = nil, errors.New("is no address that the service understands")
		}
	}()
	r, err := router.New(quiet)
	if err != nil {
		return nil, errors.New("is no address that the service understands")
	}
	if service, err = r.Locate(string(s)); err != nil {
		return nil, errors.New("is no address that the " + s.scheme() + " service understands: see docs/notifications.md for how it is written")
	}
	return service, nil
}

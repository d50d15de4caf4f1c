package main

import (
	"cmp"
	"errors"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/term"
)

// client asks the gpuwhy at an address; if that is empty, the one that these settings are for.
func (f *addressFlags) client(address string, o client.Options) (*client.Client, error) {
	c, err := client.New(cmp.Or(address, f.url()), o)
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// legible is an error without what a terminal would act on in the text of an answer.
func legible(err error) error {
	if p, ok := errors.AsType[*client.Problem](err); ok {
		return errors.New(term.Printable(p.Detail))
	}
	return err
}

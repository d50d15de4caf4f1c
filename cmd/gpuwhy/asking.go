package main

import (
	"cmp"
	"errors"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/term"
)

// client returns a client for the gpuwhy at an address or, if that is empty, for the one with these settings.
func (f *addressFlags) client(address string, o client.Options) (*client.Client, error) {
	c, err := client.New(cmp.Or(address, f.url()), o)
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// legible returns an error without control sequences from the text of an answer.
func legible(err error) error {
	if p, ok := errors.AsType[*client.Problem](err); ok {
		return errors.New(term.Printable(p.Detail))
	}
	return err
}

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/regular"
	shown "github.com/gpuwhy/gpuwhy/internal/term"
)

// client returns a client for the gpuwhy at an address or, if that is empty, for the one with these settings.
func (f *addressFlags) client(address string, o client.Options) (*client.Client, error) {
	c, err := client.New(cmp.Or(address, f.url()), o)
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// tokenFlags say who a command is to a gpuwhy that people sign in to.
type tokenFlags struct {
	TokenFile string `group:"access" placeholder:"FILE" help:"File with an API token for a gpuwhy that people sign in to. Without it, the token is in the environment variable GPUWHY_TOKEN, if anywhere." docs:"access.md#tokens"`
}

// tokenVariable is the environment variable with an API token. There is no flag for the token itself: everybody on the machine can read
// command lines.
const tokenVariable = "GPUWHY_TOKEN"

// client returns what [addressFlags.client] does, with the token.
func (f *tokenFlags) client(at *addressFlags, address string, o client.Options) (_ *client.Client, err error) {
	o.Token = strings.TrimSpace(os.Getenv(tokenVariable))
	if f.TokenFile != "" {
		if o.Token, err = readSecret(f.TokenFile, "token"); err != nil {
			return nil, err
		}
	}
	return at.client(address, o)
}

// longestSecret is how long a file with a secret may be, in bytes.
const longestSecret = 4 << 10

// readSecret returns the first line of a file; for "-" that of standard input, which is asked for if it is a terminal.
func readSecret(name, what string) (string, error) {
	var text []byte
	var err error
	switch in := int(os.Stdin.Fd()); {
	case name == "-" && term.IsTerminal(in):
		fmt.Fprintf(os.Stderr, "The %s (it is not shown): ", what)
		text, err = term.ReadPassword(in)
		fmt.Fprintln(os.Stderr)
	case name == "-":
		text, err = io.ReadAll(io.LimitReader(os.Stdin, longestSecret))
	default:
		text, err = regular.Read(name, longestSecret)
	}
	if err != nil {
		return "", usageError{fmt.Errorf("the %s can't be read: %w", what, err)}
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", usageError{fmt.Errorf("the %s is empty", what)}
	}
	return line, nil
}

// legible returns an error without control sequences from the text of an answer.
func legible(err error) error {
	if p, ok := errors.AsType[*client.Problem](err); ok {
		return errors.New(shown.Printable(p.Detail))
	}
	return err
}

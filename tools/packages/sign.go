package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"aead.dev/minisign"
)

// A signer signs as minisign does, with the hash of a file (BLAKE2b), so that OpenSSL can check it, too.
type signer struct {
	key    minisign.PrivateKey
	public string // in base64, as minisign -P takes it
}

// readKey reads a secret key of minisign. A key without a password needs no password file.
func readKey(file, passwordFile string) (*signer, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the signing key: %w", err)
	}
	s := &signer{}
	if minisign.IsEncrypted(text) {
		if passwordFile == "" {
			return nil, fmt.Errorf("the signing key %s has a password: name a file with it (SIGNING_PASSWORD_FILE=FILE)", file)
		}
		password, err := os.ReadFile(passwordFile)
		if err != nil {
			return nil, fmt.Errorf("the password of the signing key: %w", err)
		}
		if s.key, err = minisign.DecryptKey(strings.TrimRight(string(password), "\r\n"), text); err != nil {
			return nil, fmt.Errorf("the signing key %s: %w", file, err)
		}
	} else if err := s.key.UnmarshalText(text); err != nil {
		return nil, fmt.Errorf("the signing key %s: %w", file, err)
	}
	s.public = s.key.Public().(minisign.PublicKey).String()
	return s, nil
}

// sign returns the signature of a text, as a file of minisign. The trusted comment is signed, too.
func (s *signer) sign(text []byte, trusted string) []byte {
	r := minisign.NewReader(bytes.NewReader(text))
	if _, err := io.Copy(io.Discard, r); err != nil {
		panic(err) // it reads from memory
	}
	return r.SignWithComments(s.key, trusted, "signature of gpuwhy's checksums")
}

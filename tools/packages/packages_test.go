package main

import (
	"os"
	"path/filepath"
	"testing"

	"aead.dev/minisign"
)

// A key with a password signs with it alone, and minisign's own library accepts the signature.
func TestSigning(t *testing.T) {
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := minisign.EncryptKey("secret", private)
	if err != nil {
		t.Fatal(err)
	}
	key, password := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "password")
	for name, content := range map[string]string{key: string(text), password: "secret\n"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := readKey(key, ""); err == nil {
		t.Error("the key is read without its password")
	}
	if _, err := readKey(key, key); err == nil {
		t.Error("the key is read with another password")
	}
	s, err := readKey(key, password)
	if err != nil {
		t.Fatal(err)
	}
	if s.public != public.String() {
		t.Errorf("the public key is %s, not %s", s.public, public)
	}
	signature := s.sign([]byte("a list"), "a release")
	if !minisign.Verify(public, []byte("a list"), signature) || minisign.Verify(public, []byte("another list"), signature) {
		t.Error("the signature is wrong")
	}
}

func TestVersions(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"2.34", "2.34", 0}, {"2.4", "2.34", -1}, {"2.36", "2.34", 1}, {"2.3.4", "2.3", 1}} {
		if got := compareVersions(tt.a, tt.b); got != tt.want {
			t.Errorf("%s to %s: %d", tt.a, tt.b, got)
		}
	}
}

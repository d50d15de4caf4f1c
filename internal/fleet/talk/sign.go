package talk

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strconv"
	"time"
)

// The headers of a signed question.
const (
	headerHub       = "Gpuwhy-Hub"       // the name of the hub
	headerKey       = "Gpuwhy-Key"       // its public key
	headerTime      = "Gpuwhy-Time"      // when it signed, in milliseconds since 1970
	headerNonce     = "Gpuwhy-Nonce"     // random
	headerSignature = "Gpuwhy-Signature" // of all of this, the node and the question
)

// A Signer is a hub that signs its questions.
type Signer struct {
	Name string
	Key  ed25519.PrivateKey
}

// Public returns the key with which nodes check the signatures; nil for a hub without a key.
func (s *Signer) Public() ed25519.PublicKey {
	if s == nil || len(s.Key) != ed25519.PrivateKeySize {
		return nil
	}
	public, _ := s.Key.Public().(ed25519.PublicKey)
	return public
}

// Sign returns the headers of a question to a node; none for a hub without a key.
func (s *Signer) Sign(node string, question []byte, now time.Time) map[string][]string {
	public := s.Public()
	if public == nil {
		return nil
	}
	sig := Signature{Hub: s.Name, Key: public, At: now.UTC().Truncate(time.Millisecond), Nonce: rand.Text()}
	text := base64.StdEncoding.EncodeToString
	return map[string][]string{
		headerHub: {base64.StdEncoding.EncodeToString([]byte(sig.Hub))}, headerKey: {text(sig.Key)},
		headerTime: {strconv.FormatInt(sig.At.UnixMilli(), 10)}, headerNonce: {sig.Nonce},
		headerSignature: {text(ed25519.Sign(s.Key, sig.signed(node, question)))},
	}
}

// A Signature says which hub asks. It is valid for one node and one question.
type Signature struct {
	Hub   string
	Key   ed25519.PublicKey
	At    time.Time
	Nonce string
}

// signed is what is signed: each part with its length, so that no other parts make the same text.
func (s *Signature) signed(node string, question []byte) []byte {
	b := []byte("gpuwhy question 1")
	for _, part := range [][]byte{[]byte(s.Hub), s.Key, []byte(strconv.FormatInt(s.At.UnixMilli(), 10)), []byte(s.Nonce), []byte(node), question} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part))) //nolint:gosec // a message is far shorter
		b = append(b, part...)
	}
	return b
}

// mostHub and mostNonce are how many bytes a name and a nonce may have.
const mostHub, mostNonce = 512, 64

// ErrSignature says that a question has a signature that is not valid.
var ErrSignature = errors.New("the signature of the question is not valid")

// Signed returns the valid signature of a question to a node; nil if it has none, as those of earlier versions.
func Signed(headers map[string][]string, node string, question []byte) (*Signature, error) {
	if len(headers[headerSignature]) == 0 {
		return nil, nil
	}
	get := func(name string) string {
		if values := headers[name]; len(values) == 1 {
			return values[0]
		}
		return ""
	}
	hub, err1 := base64.StdEncoding.DecodeString(get(headerHub))
	key, err2 := base64.StdEncoding.DecodeString(get(headerKey))
	ms, err3 := strconv.ParseInt(get(headerTime), 10, 64)
	proof, err4 := base64.StdEncoding.DecodeString(get(headerSignature))
	s := &Signature{Hub: string(hub), Key: key, At: time.UnixMilli(ms).UTC(), Nonce: get(headerNonce)}
	if errors.Join(err1, err2, err3, err4) != nil || len(key) != ed25519.PublicKeySize || len(hub) == 0 || len(hub) > mostHub ||
		len(s.Nonce) < 16 || len(s.Nonce) > mostNonce || !ed25519.Verify(s.Key, s.signed(node, question), proof) {
		return nil, ErrSignature
	}
	return s, nil
}

package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/acme"

	"github.com/gpuwhy/gpuwhy/internal/state"
)

// acmeServer is an ACME authority (RFC 8555) for one order at a time. It checks that who orders has the name, and not who signs requests.
type acmeServer struct {
	*httptest.Server
	t         *testing.T
	authority someAuthority
	how       string // the challenge that it offers
	at        string // where it reaches the machine of the name

	mu      sync.Mutex
	orders  int
	refuses bool // it gives no certificate
	key     ecdsa.PublicKey
	valid   string // whether the name belongs to who orders it: pending, valid, or invalid
	der     []byte
}

const acmeToken = "token-of-the-challenge"

func newACMEServer(t *testing.T, how string) *acmeServer {
	t.Helper()
	s := &acmeServer{t: t, authority: newAuthority(t), how: how}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /directory", func(w http.ResponseWriter, _ *http.Request) {
		s.say(w, http.StatusOK, map[string]string{"newNonce": s.URL + "/nonce", "newAccount": s.URL + "/account", "newOrder": s.URL + "/order"})
	})
	mux.HandleFunc("/nonce", func(w http.ResponseWriter, _ *http.Request) { s.say(w, http.StatusOK, struct{}{}) })
	for path, answer := range map[string]func(w http.ResponseWriter, payload []byte){
		"POST /account": func(w http.ResponseWriter, _ []byte) {
			w.Header().Set("Location", s.URL+"/account/1")
			s.say(w, http.StatusCreated, map[string]string{"status": "valid"})
		},
		"POST /order": func(w http.ResponseWriter, _ []byte) {
			s.orders++
			if s.refuses {
				w.Header().Set("Content-Type", "application/problem+json")
				s.say(w, http.StatusForbidden, map[string]any{"type": "urn:ietf:params:acme:error:rejectedIdentifier", "detail": "this name is not for you", "status": 403})
				return
			}
			s.valid, s.der = "pending", nil
			s.order(w, http.StatusCreated)
		},
		"POST /order/1":     func(w http.ResponseWriter, _ []byte) { s.order(w, http.StatusOK) },
		"POST /authz":       func(w http.ResponseWriter, _ []byte) { s.authz(w) },
		"POST /authz/again": func(w http.ResponseWriter, _ []byte) { s.authz(w) },
		"POST /challenge": func(w http.ResponseWriter, payload []byte) {
			if s.valid = "valid"; s.check() != nil {
				s.valid = "invalid"
			}
			s.say(w, http.StatusOK, s.challenge())
		},
		"POST /finalize": func(w http.ResponseWriter, payload []byte) {
			var request struct{ CSR string }
			der := []byte{}
			if err := json.Unmarshal(payload, &request); err == nil {
				der, _ = base64.RawURLEncoding.DecodeString(request.CSR)
			}
			csr, err := x509.ParseCertificateRequest(der)
			if err != nil || s.valid != "valid" {
				s.say(w, http.StatusForbidden, struct{}{})
				return
			}
			s.der = s.authority.certificate(s.t, csr.PublicKey, int64(100+s.orders), -time.Hour, 90*day, csr.DNSNames...)
			s.order(w, http.StatusOK)
		},
		"POST /cert": func(w http.ResponseWriter, _ []byte) {
			w.Header().Set("Content-Type", "application/pem-certificate-chain")
			_ = pem.Encode(w, &pem.Block{Type: "CERTIFICATE", Bytes: s.der})
			_ = pem.Encode(w, &pem.Block{Type: "CERTIFICATE", Bytes: s.authority.cert.Raw})
		},
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			answer(w, s.payload(r))
		})
	}
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// payload takes the key of a new account, and returns what a request says.
func (s *acmeServer) payload(r *http.Request) []byte {
	var jws struct{ Protected, Payload string }
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &jws)
	protected, _ := base64.RawURLEncoding.DecodeString(jws.Protected)
	payload, _ := base64.RawURLEncoding.DecodeString(jws.Payload)
	var header struct{ JWK struct{ X, Y string } }
	if json.Unmarshal(protected, &header) == nil && header.JWK.X != "" {
		x, _ := base64.RawURLEncoding.DecodeString(header.JWK.X)
		y, _ := base64.RawURLEncoding.DecodeString(header.JWK.Y)
		s.key = ecdsa.PublicKey{Curve: elliptic.P256(), X: new(big.Int).SetBytes(x), Y: new(big.Int).SetBytes(y)}
	}
	return payload
}

func (s *acmeServer) say(w http.ResponseWriter, status int, what any) {
	w.Header().Set("Replay-Nonce", "nonce")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(what)
}

func (s *acmeServer) order(w http.ResponseWriter, status int) {
	w.Header().Set("Location", s.URL+"/order/1")
	is := map[string]string{"pending": "pending", "valid": "ready", "invalid": "invalid"}[s.valid]
	order := map[string]any{"authorizations": []string{s.URL + "/authz"}, "finalize": s.URL + "/finalize"}
	if s.der != nil {
		is, order["certificate"] = "valid", s.URL+"/cert"
	}
	order["status"] = is
	s.say(w, status, order)
}

func (s *acmeServer) authz(w http.ResponseWriter) {
	s.say(w, http.StatusOK, map[string]any{
		"status": s.valid, "identifier": map[string]string{"type": "dns", "value": "gpu.example.org"}, "challenges": []any{s.challenge()},
	})
}

func (s *acmeServer) challenge() any {
	return map[string]string{"type": s.how, "url": s.URL + "/challenge", "token": acmeToken, "status": s.valid}
}

// check asks the machine of the name whether it has ordered the certificate.
func (s *acmeServer) check() error {
	thumbprint, err := acme.JWKThumbprint(&s.key)
	if err != nil {
		return err
	}
	want := acmeToken + "." + thumbprint
	if s.how == "http-01" {
		r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.at+"/.well-known/acme-challenge/"+acmeToken, http.NoBody)
		if err != nil {
			return err
		}
		r.Host = "gpu.example.org"
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if said, _ := io.ReadAll(answer.Body); string(said) != want {
			return fmt.Errorf("it says %q", said)
		}
		return nil
	}
	dialer := tls.Dialer{Config: &tls.Config{ServerName: "gpu.example.org", NextProtos: []string{acme.ALPNProto}, InsecureSkipVerify: true}}
	conn, err := dialer.DialContext(s.t.Context(), "tcp", s.at)
	if err != nil {
		return err
	}
	defer conn.Close()
	sum := sha256.Sum256([]byte(want))
	value, err := asn1.Marshal(sum[:])
	if err != nil {
		return err
	}
	for _, e := range conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Extensions { //nolint:forcetypeassert // a tls.Dialer's
		if e.Id.String() == "1.3.6.1.5.5.7.1.31" && string(e.Value) == string(value) {
			return nil
		}
	}
	return errors.New("the certificate has no answer")
}

// An ACME authority gives a certificate once it has reached this machine, at the TLS port or at that without TLS. It is kept, and clients can't
// cause orders.
func TestACME(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"tls-alpn-01", "http-01"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			server, dir := newACMEServer(t, how), t.TempDir()
			cfg, log := configOf(Options{Domains: []string{"gpu.example.org"}, Directory: server.URL + "/directory", Email: "a@example.org"})
			cfg.Files = state.Folder(dir)
			r := newRoom(t, cfg)
			ask := func(r *Room, name string) (*x509.Certificate, error) {
				ours, theirs := net.Pipe()
				go func() {
					over := tls.Server(theirs, r.TLS())
					_ = over.HandshakeContext(t.Context()) // the client's error says more
				}()
				client := tls.Client(ours, &tls.Config{ServerName: name, InsecureSkipVerify: true})
				defer ours.Close()
				if err := client.HandshakeContext(t.Context()); err != nil {
					return nil, err
				}
				return client.ConnectionState().PeerCertificates[0], nil
			}
			if _, err := ask(r, "gpu.example.org"); err == nil || server.orders > 0 {
				t.Errorf("a client gets a certificate before there is one, or caused %d orders: %v", server.orders, err)
			}

			if how == "tls-alpn-01" {
				ln, err := tls.Listen("tcp", "127.0.0.1:0", r.TLS())
				if err != nil {
					t.Fatal(err)
				}
				web := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
				go func() { _ = web.Serve(ln) }()
				t.Cleanup(func() { web.Close() })
				server.at = ln.Addr().String()
			} else {
				web := httptest.NewServer(r.Plain(http.NotFoundHandler()))
				t.Cleanup(web.Close)
				server.at = web.Listener.Addr().String()
			}

			server.refuses = true
			if again := r.source.renew(t.Context()); again != orderAgain {
				t.Errorf("it orders again after %v", again)
			}
			if again := r.source.renew(t.Context()); again != 2*orderAgain {
				t.Errorf("then it orders again after %v", again)
			}
			if got, why := r.health(); got != "failed" || !strings.Contains(why, "gave no certificate") {
				t.Errorf("health: %s, %s", got, why)
			}
			server.refuses = false
			// The library does not order again for a minute after it failed: a program that starts anew has no such memory.
			r.source.(*authority).manager = newRoom(t, cfg).source.(*authority).manager //nolint:forcetypeassert // ACME's
			if how == "http-01" {
				web := httptest.NewServer(r.Plain(http.NotFoundHandler()))
				t.Cleanup(web.Close)
				server.at = web.Listener.Addr().String()
			}
			r.source.renew(t.Context())
			if got, why := r.health(); got != "ok" {
				t.Fatalf("health: %s, %s; %s", got, why, log)
			}
			for _, name := range []string{"gpu.example.org", "GPU.example.org", "", "other.example.org"} {
				if cert, err := ask(r, name); err != nil || cert.VerifyHostname("gpu.example.org") != nil {
					t.Errorf("%q gets %v, %v", name, cert, err)
				}
			}
			orders := server.orders
			again := newRoom(t, cfg) // after a restart
			again.source.renew(t.Context())
			if cert, err := ask(again, "gpu.example.org"); err != nil || cert.SerialNumber.Int64() != int64(100+orders) || server.orders != orders {
				t.Errorf("after a restart: %v, %v, %d orders", cert, err, server.orders-orders)
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 2 {
				t.Errorf("the state directory has %v, %v", entries, err)
			}
			for _, e := range entries {
				if info, err := os.Stat(filepath.Join(dir, e.Name())); err != nil || info.Mode().Perm() != 0o600 || !strings.HasPrefix(e.Name(), "tls-acme-") {
					t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
				}
			}
			if r.Host() != "gpu.example.org" || r.Fingerprint() != "" || r.Proven("gpu.example.org") {
				t.Errorf("host %q, fingerprint %q, proven %v", r.Host(), r.Fingerprint(), r.Proven("gpu.example.org"))
			}
		})
	}
}

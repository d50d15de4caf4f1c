package bus

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/neterr"
)

// State is the state of the connection.
type State struct {
	Connected bool
	Since     time.Time // since when it is connected, or is not
	Server    string    // the URL of the server, without secrets; empty while there is none
	// Err is what is wrong, and what to do; nil if nothing is known to be. A connection without an error may not have been used yet.
	Err *gpu.Advice
	// Dropped is how often messages were dropped because this program processed them too slowly.
	Dropped uint64
}

// State returns the current state. It does not wait.
func (b *Bus) State() State {
	server := b.conn.ConnectedUrlRedacted()
	b.mu.Lock()
	defer b.mu.Unlock()
	s := State{Connected: server != "", Since: b.since, Server: server, Err: b.worst(), Dropped: b.dropped}
	if !s.Connected && s.Err == nil {
		s.Err = &gpu.Advice{What: "not connected to the fleet yet", Try: "wait a few seconds"}
	}
	return s
}

// Note records the result of a JetStream request: its error is part of State until a request succeeds. Errors
// that say nothing about servers, such as a canceled context, change nothing.
func (b *Bus) Note(err error) { b.note(&b.stored, err) }

// note takes the result into one of the fields, which mu guards: that streams are there does not end that they take nothing.
func (b *Bus) note(into **gpu.Advice, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, nats.ErrConnectionClosed) || !b.conn.IsConnected() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	*into = cmp.Or(explainStored(err), Explain(err))
	b.tell()
}

// worst is the problem that people should read about first.
func (b *Bus) worst() *gpu.Advice {
	for _, advice := range []*gpu.Advice{b.link, b.stored, b.checked, b.denied} {
		if advice != nil {
			return advice
		}
	}
	return nil
}

// tell logs a problem once, and that it is over.
func (b *Bus) tell() {
	text := ""
	worst := b.worst()
	if worst != nil {
		text = worst.Text()
	}
	switch {
	case text == b.told:
	case worst == nil:
		b.log.Info("the fleet works again")
	default:
		b.log.Warn("the fleet has a problem", "problem", worst.What, "try", worst.Try, "err", worst.Err)
	}
	b.told = text
}

// Codes of JetStream errors without a name in its client.
const (
	codeAccountLimits    = 10002
	codeNoPeers          = 10005
	codeNotAvailable     = 10008
	codeCantHandle       = 10009
	codeInsufficient     = 10023
	codeMemory           = 10028
	codeStorage          = 10047
	codeReplicas         = 10074
	codeStoreFailed      = 10077
	codeOffline          = 10118
	codeNoTier           = 10120
	codeSubjectsOverlap  = 10065
	codeStreamBytesLimit = 10122 // the account wants a limit of bytes of each stream, and a smaller one
)

// codeOf returns JetStream's number of an error; 0 if it has none.
func codeOf(err error) jetstream.ErrorCode {
	if api, ok := errors.AsType[jetstream.JetStreamError](err); ok && api.APIError() != nil {
		return api.APIError().ErrorCode
	}
	return 0
}

// explainStored explains the error of a JetStream request; nil for errors that say nothing about it.
func explainStored(err error) *gpu.Advice {
	if err == nil {
		return nil
	}
	code := codeOf(err)
	advice := &gpu.Advice{Err: err}
	switch {
	case code == jetstream.JSErrCodeJetStreamNotEnabled, code == jetstream.JSErrCodeJetStreamNotEnabledForAccount, code == codeNoTier:
		advice.What = "the NATS server stores nothing: JetStream is not enabled"
		advice.Try = "enable JetStream on the servers and for the fleet's account"
	case code == codeStorage, code == codeNoPeers:
		advice.What = "the NATS servers have less space than the fleet's streams may need"
		advice.Try = "give JetStream and the account 4 GiB, or create the streams beforehand with smaller limits"
	case code == codeStoreFailed, code == codeMemory, code == codeAccountLimits, code == codeInsufficient, code == codeStreamBytesLimit:
		advice.What = "JetStream is full"
		advice.Try = "check that recorders run and empty the streams, and that the server's disk and the account's limits have space"
	case code == codeNotAvailable, code == codeCantHandle, code == codeOffline, errors.Is(err, jetstream.ErrNoStreamResponse),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrNoResponders):
		advice.What = "JetStream does not answer: its servers have no majority or can't write, or the fleet's streams don't exist yet"
		advice.Try = "check that more than half of the NATS servers run, reach each other and have free disk space, and that a hub runs"
	case code == jetstream.JSErrCodeStreamNotFound:
		advice.What = "the fleet's streams don't exist yet"
		advice.Try = "start a hub, which creates them"
	case code == codeSubjectsOverlap:
		advice.What = "another stream of the account uses the fleet's subjects"
		advice.Try = "remove the stream with gpuwhy.v1.> among its subjects, or give the fleet its own account"
	default:
		return nil
	}
	return advice
}

// Explain returns what a NATS error means, and what a person can do; nil without an error.
func Explain(err error) *gpu.Advice {
	if err == nil {
		return nil
	}
	if advice, ok := errors.AsType[*gpu.Advice](err); ok {
		return advice
	}
	if _, ok := errors.AsType[jetstream.JetStreamError](err); ok {
		if advice := explainStored(err); advice != nil {
			return advice
		}
	}
	advice := &gpu.Advice{Err: err}
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	name, wrongName := errors.AsType[x509.HostnameError](err)
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	_, notTLS := errors.AsType[tls.RecordHeaderError](err)
	dns, noName := errors.AsType[*net.DNSError](err)
	netErr, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, nats.ErrAuthRevoked):
		advice.What, advice.Try = "the fleet credentials were revoked", tryRejoin
	case errors.Is(err, nats.ErrAuthExpired):
		advice.What, advice.Try = "the fleet credentials have expired", tryRejoin
	case errors.Is(err, nats.ErrAccountAuthExpired):
		advice.What, advice.Try = "the fleet's account on the NATS server has expired", "ask the NATS administrator to renew the account"
	case errors.Is(err, nats.ErrAuthorization):
		advice.What, advice.Try = "the NATS server rejects the fleet credentials: it does not know them, or they were revoked", tryRejoin
	case errors.Is(err, nats.ErrPermissionViolation):
		advice.What = "the NATS server does not give this program all the permissions it needs"
		advice.Try = "check that its credentials are for this node and for its role: agent, hub or recorder"
	case unknown:
		advice.What = "the NATS server can't be trusted: its certificate was signed by an unknown authority"
		advice.Try = "use the file made by 'gpuwhy fleet join-command', or add the authority's certificate to the credentials file"
	case wrongName:
		advice.What = "the NATS server's certificate is not for the name " + name.Host
		advice.Try = "start the server with --fleet-host " + name.Host + ", or use a name from its certificate in --fleet"
	case isInvalid && invalid.Reason == x509.Expired:
		advice.What, advice.Try = "the NATS server's certificate is not valid now", "compare the clocks of both machines, and renew the certificate"
	case isInvalid:
		advice.What, advice.Try = "the NATS server's certificate is not valid", "give the server a new one"
	case errors.Is(err, nats.ErrSecureConnWanted), notTLS:
		advice.What, advice.Try = "the NATS server does not speak TLS on this port", "use its TLS port, or set up TLS on the server"
	case errors.Is(err, nats.ErrSecureConnRequired):
		advice.What, advice.Try = "the NATS server requires TLS", "use tls:// in --fleet"
	case noName:
		advice.What, advice.Try = "the name of the NATS server, "+dns.Name+", can't be resolved", "correct --fleet, or fix the name service"
	case neterr.Refused(err), errors.Is(err, nats.ErrNoServers):
		advice.What, advice.Try = "no NATS server listens there", "check that the server runs, and that --fleet has its port"
	case neterr.NoHost(err), neterr.NoNetwork(err):
		advice.What, advice.Try = "the network has no route to the NATS server", "check that its machine runs and that the network reaches it"
	case isNet && netErr.Timeout(), errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrStaleConnection):
		advice.What, advice.Try = "the NATS server does not answer", "check that it runs, and that no firewall blocks its port"
	case strings.Contains(err.Error(), "nats: "):
		advice.What, advice.Try = "the NATS server closed the connection", "see its log; gpuwhy reconnects on its own"
	default:
		advice.What, advice.Try = "the connection to the NATS server is lost", "check that the server runs; gpuwhy reconnects on its own"
	}
	return advice
}

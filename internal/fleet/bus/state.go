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

// State is how it is with the connection.
type State struct {
	Connected bool
	Since     time.Time // since when it is, or is not
	Server    string    // the URL of the server, without secrets; empty while there is none
	// Err is what is wrong, and what to do; nil for nothing. A connection without an error may not have been used yet.
	Err *gpu.Advice
	// Dropped is how often messages were dropped since this program took them too slowly.
	Dropped uint64
}

// State says how it is now. It waits for nothing.
func (b *Bus) State() State {
	server := b.conn.ConnectedUrlRedacted()
	b.mu.Lock()
	defer b.mu.Unlock()
	s := State{Connected: server != "", Since: b.since, Server: server, Err: b.worst(), Dropped: b.dropped}
	if !s.Connected && s.Err == nil {
		s.Err = &gpu.Advice{What: "the connection to the fleet is not made yet", Try: "wait a few seconds"}
	}
	return s
}

// Note takes the result of what was asked of JetStream: its error is part of State until something has worked. Errors
// that say nothing of servers, such as that of a context that was canceled, change nothing.
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

// worst is what people should read first.
func (b *Bus) worst() *gpu.Advice {
	for _, advice := range []*gpu.Advice{b.link, b.stored, b.checked, b.denied} {
		if advice != nil {
			return advice
		}
	}
	return nil
}

// tell puts what is wrong into the log, once, and that it is over.
func (b *Bus) tell() {
	text := ""
	worst := b.worst()
	if worst != nil {
		text = worst.Text()
	}
	switch {
	case text == b.told:
	case worst == nil:
		b.log.Info("the fleet is well again")
	default:
		b.log.Warn("the fleet has a problem", "problem", worst.What, "try", worst.Try, "err", worst.Err)
	}
	b.told = text
}

// Codes of JetStream's errors that its client has no names for.
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

// codeOf is JetStream's number of an error; 0 where it has none.
func codeOf(err error) jetstream.ErrorCode {
	if api, ok := errors.AsType[jetstream.JetStreamError](err); ok && api.APIError() != nil {
		return api.APIError().ErrorCode
	}
	return 0
}

// explainStored explains an error of what was asked of JetStream; nil for those that say nothing of it.
func explainStored(err error) *gpu.Advice {
	if err == nil {
		return nil
	}
	code := codeOf(err)
	advice := &gpu.Advice{Err: err}
	switch {
	case code == jetstream.JSErrCodeJetStreamNotEnabled, code == jetstream.JSErrCodeJetStreamNotEnabledForAccount, code == codeNoTier:
		advice.What = "the NATS server keeps nothing: JetStream is not enabled"
		advice.Try = "enable JetStream on the servers and for the account of the fleet"
	case code == codeStorage, code == codeNoPeers:
		advice.What = "the NATS servers have less room than the streams of the fleet may take"
		advice.Try = "give JetStream and the account 4 GiB, or make the streams first, with smaller limits"
	case code == codeStoreFailed, code == codeMemory, code == codeAccountLimits, code == codeInsufficient, code == codeStreamBytesLimit:
		advice.What = "JetStream is full"
		advice.Try = "see that recorders run and take what waits, and that the server's disk and the account's limits have room"
	case code == codeNotAvailable, code == codeCantHandle, code == codeOffline, errors.Is(err, jetstream.ErrNoStreamResponse),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrNoResponders):
		advice.What = "JetStream does not answer: the servers that keep messages are no majority or can't write, or the streams of the fleet are not made yet"
		advice.Try = "see that more than half of the NATS servers run, reach each other and have room on their disks, and that a hub runs"
	case code == jetstream.JSErrCodeStreamNotFound:
		advice.What = "the streams of the fleet are not made yet"
		advice.Try = "start a hub, which makes them"
	case code == codeSubjectsOverlap:
		advice.What = "another stream of the account takes the subjects of the fleet"
		advice.Try = "remove the stream that has gpuwhy.v1.> among its subjects, or give the fleet an account of its own"
	default:
		return nil
	}
	return advice
}

// Explain says what an error of NATS means, and what a person can do; nil for none.
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
		advice.What, advice.Try = "the credentials of the fleet were revoked", tryRejoin
	case errors.Is(err, nats.ErrAuthExpired):
		advice.What, advice.Try = "the credentials of the fleet have expired", tryRejoin
	case errors.Is(err, nats.ErrAccountAuthExpired):
		advice.What, advice.Try = "the fleet's account on the NATS server has expired", "let the administrator of NATS renew the account"
	case errors.Is(err, nats.ErrAuthorization):
		advice.What, advice.Try = "the NATS server refuses the credentials of the fleet: it does not know them, or they were revoked", tryRejoin
	case errors.Is(err, nats.ErrPermissionViolation):
		advice.What = "the NATS server does not allow this program all that it needs"
		advice.Try = "see that its credentials are of this node, and of what it is: an agent, a hub or a recorder"
	case unknown:
		advice.What = "the NATS server can't be trusted: an authority that is not known here has signed its certificate"
		advice.Try = "use the file that 'gpuwhy fleet join-command' made, or add the certificate of the authority to the file of credentials"
	case wrongName:
		advice.What = "the certificate of the NATS server is not for the name " + name.Host
		advice.Try = "start it with --fleet-host " + name.Host + ", or use a name that it has in --fleet"
	case isInvalid && invalid.Reason == x509.Expired:
		advice.What, advice.Try = "the certificate of the NATS server is not valid now", "compare the clocks of both machines, and renew the certificate"
	case isInvalid:
		advice.What, advice.Try = "the certificate of the NATS server is not valid", "give the server another"
	case errors.Is(err, nats.ErrSecureConnWanted), notTLS:
		advice.What, advice.Try = "the NATS server does not speak TLS there", "use its port with TLS, or give the server TLS"
	case errors.Is(err, nats.ErrSecureConnRequired):
		advice.What, advice.Try = "the NATS server wants TLS", "use tls:// in --fleet"
	case noName:
		advice.What, advice.Try = "the name "+dns.Name+" of the NATS server is not known", "correct --fleet, or the name service"
	case neterr.Refused(err), errors.Is(err, nats.ErrNoServers):
		advice.What, advice.Try = "no NATS server listens there", "see that the server runs, and that --fleet has its port"
	case neterr.NoHost(err), neterr.NoNetwork(err):
		advice.What, advice.Try = "there is no way to the NATS server in the network", "see that its machine runs and that the network reaches it"
	case isNet && netErr.Timeout(), errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrStaleConnection):
		advice.What, advice.Try = "the NATS server does not answer", "see that it runs, and that a firewall lets its port through"
	case strings.Contains(err.Error(), "nats: "):
		advice.What, advice.Try = "the NATS server ended the connection", "see its log; the connection is made again by itself"
	default:
		advice.What, advice.Try = "the connection to the NATS server is lost", "see that the server runs; the connection is made again by itself"
	}
	return advice
}

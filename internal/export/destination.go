package export

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/neterr"
)

const (
	patience  = 15 * time.Second // for a request and its answer
	firstWait = time.Second      // after a try that failed; it doubles
	mostWait  = 30 * time.Second
	mostAsked = 5 * time.Minute // that a receiver may have us wait
	mostSaid  = 4 << 10         // bytes of an answer that are read
	mostTold  = 200             // of them that people are told
)

// A State is how the sending to a destination does. Counts are of samples.
type State struct {
	Name                  string
	Sent, Failed, Dropped uint64 // taken; refused for good; given up since too many wait
	Waiting               int
	WaitingBytes          int // compressed
	LastSent              time.Time
	Err                   error // a [gpu.Advice], while the newest try has failed
	Since                 time.Time
}

// A batch is a request that waits. Destinations share it.
type batch struct {
	body    []byte
	samples int
}

type destination struct {
	Destination
	clock   clock.Clock
	version string
	log     *slog.Logger
	client  *http.Client
	wake    chan struct{} // has a value when there may be something to send
	// patience, firstWait and goodbye, but in tests
	patience, first, goodbye time.Duration

	mu     sync.Mutex
	queue  []*batch
	busy   bool // the first of the queue is being sent
	closed bool // nothing more comes
	now    State
	told   string // the newest failure that was logged
}

func newDestination(target Destination, clock clock.Clock, version string, log *slog.Logger) *destination {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one
	transport.MaxIdleConnsPerHost = 1
	return &destination{
		Destination: target, clock: clock, version: version, log: log, wake: make(chan struct{}, 1), now: State{Name: target.Name},
		patience: patience, first: firstWait, goodbye: goodbye,
		client: &http.Client{
			Transport: transport,
			// What is sent, and its credentials, go where people said and nowhere else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (d *destination) state() State {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.now
	for _, b := range d.queue {
		s.Waiting += b.samples
		s.WaitingBytes += len(b.body)
	}
	return s
}

// push puts a batch at the end of the queue. Where there is no room, the oldest go.
func (d *destination) push(b *batch) {
	d.mu.Lock()
	size := len(b.body)
	for _, waits := range d.queue {
		size += len(waits.body)
	}
	oldest := 0
	if d.busy {
		oldest = 1
	}
	for size > mostWaiting && len(d.queue) > oldest {
		gone := d.queue[oldest]
		d.queue = append(d.queue[:oldest:oldest], d.queue[oldest+1:]...)
		d.now.Dropped += uint64(gone.samples) //nolint:gosec // a count
		size -= len(gone.body)
	}
	d.queue = append(d.queue, b)
	d.mu.Unlock()
	d.notify()
}

func (d *destination) notify() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// close says that nothing more comes.
func (d *destination) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.notify()
}

// run sends what comes, in order, until it is closed and nothing waits. Once ctx has ended it tries for a second, and nothing twice.
func (d *destination) run(ctx context.Context) {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer d.client.CloseIdleConnections()
	defer context.AfterFunc(ctx, func() {
		last := time.AfterFunc(d.goodbye, cancel)
		context.AfterFunc(sending, func() { last.Stop() })
	})()
	for wait := d.first; ; {
		d.mu.Lock()
		if len(d.queue) == 0 {
			closed := d.closed
			d.mu.Unlock()
			if closed {
				return
			}
			<-d.wake
			continue
		}
		b := d.queue[0]
		d.busy = true
		d.mu.Unlock()
		rejected, err := d.send(sending, b.body)
		again := d.sent(b, rejected, err)
		if !again {
			wait = d.first
			continue
		}
		if ctx.Err() != nil {
			return
		}
		pause := err.after
		if pause == 0 {
			pause = wait/2 + time.Duration(rand.Int64N(int64(wait))) //nolint:gosec // it guards nothing
			wait = min(2*wait, mostWait)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// sent notes what became of a batch, and reports whether it is to be sent again.
func (d *destination) sent(b *batch, rejected int, err *failure) (again bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy = false
	now := d.clock.Now()
	if again = err != nil && err.again; !again {
		d.queue = d.queue[1:]
		if err != nil && rejected == 0 {
			rejected = b.samples
		}
		rejected = min(rejected, b.samples)
		d.now.Failed += uint64(rejected)           //nolint:gosec // a count
		d.now.Sent += uint64(b.samples - rejected) //nolint:gosec // a count
		if rejected < b.samples {
			d.now.LastSent = now
		}
	}
	if err == nil {
		if d.now.Err != nil {
			d.log.Info("the destination accepts series again", "to", d.Name)
		}
		d.now.Err, d.told = nil, ""
		return again
	}
	if d.now.Err == nil {
		d.now.Since = now
	}
	d.now.Err = &gpu.Advice{What: d.Name + " " + err.what, Try: err.try, Err: err.cause}
	if d.told != err.what {
		d.told = err.what
		d.log.Warn("the destination does not accept series", "to", d.Name, "why", err.what, "try", err.try, "err", err.cause)
	}
	return again
}

// A failure is why a destination did not take a request. Its texts have nothing of the address but its name.
type failure struct {
	what, try string
	cause     error // for the log; may be nil
	again     bool  // another try may do better
	after     time.Duration
}

// send sends a request. rejected are the samples of it that were not taken, if the receiver says how many.
func (d *destination) send(ctx context.Context, body []byte) (rejected int, err *failure) {
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	req, wrong := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(body))
	if wrong != nil {
		return 0, &failure{what: "has an invalid address", try: "correct it"}
	}
	d.set(req.Header)
	req.Header.Set("User-Agent", "gpuwhy/"+d.version)
	req.Header.Set("Content-Type", "application/x-protobuf")
	if d.format == remoteWrite {
		req.Header.Set("Content-Encoding", "snappy")
		req.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	} else {
		req.Header.Set("Content-Encoding", "gzip")
	}
	res, wrong := d.client.Do(req)
	if wrong != nil {
		return 0, unreachable(wrong)
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(res.Body, mostSaid))
	if res.StatusCode/100 != 2 {
		return 0, d.refused(res, said)
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if strings.HasPrefix(kind, "text/html") {
		return 0, &failure{what: "answers with a web page, which a receiver would not", try: "use the address that accepts series; if this is a login page, add credentials"}
	}
	if d.format == otlp {
		return d.partial(kind, said)
	}
	return 0, nil
}

// unreachable is why there was no answer. The error of a client has the whole address, which may have a secret.
func unreachable(err error) *failure {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	f := &failure{again: true, cause: err, what: "can't be reached", try: "check that it is running and that this machine can reach it"}
	_, dns := errors.AsType[*net.DNSError](err)
	var timeout net.Error
	switch {
	case dns:
		f.what, f.try = "has an unknown host name", "check the name"
	case neterr.Refused(err):
		f.what, f.try = "can't be reached: nothing is listening there", "start it, or check the address"
	case strings.Contains(err.Error(), "x509: ") || strings.Contains(err.Error(), "tls: "):
		f.what, f.try = "can't be trusted: "+printable(err.Error()), "give it a certificate for its name from an authority that this machine trusts (SSL_CERT_FILE adds more)"
	case errors.As(err, &timeout) && timeout.Timeout():
		f.what, f.try = "does not answer in time", "check its load"
	}
	return f
}

// refused is what an answer means that is not 2xx.
func (d *destination) refused(res *http.Response, said []byte) *failure {
	status := res.StatusCode
	f := &failure{what: fmt.Sprintf("answers %d %s", status, http.StatusText(status))}
	if text := printable(string(said)); text != "" && !strings.Contains(text, "<") {
		f.cause = errors.New(text)
	}
	switch {
	case status < 400:
		f.what += " and redirects"
		f.try = "use the address it redirects to; gpuwhy does not follow redirects"
	case status == http.StatusTooManyRequests:
		f.again, f.try = true, "it is overloaded: raise its limits, or make --interval longer"
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		f.try = "check the credentials in the file and their permissions"
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		f.try = "check the path of the address, and that its receiver is enabled"
	case status == http.StatusRequestEntityTooLarge:
		f.try = "let it accept bodies of 4 MB"
	case status < 500:
		f.try = "gpuwhy drops what it refuses; the log has the reason, such as series that are too old, sent twice or over its limits"
	default:
		// OTLP names the statuses after which a request may be sent again; remote write sends after each of 5xx.
		f.again = d.format == remoteWrite || status == 502 || status == 503 || status == 504
		f.try = "check its log"
	}
	if f.again {
		f.after = retryAfter(res.Header.Get("Retry-After"), d.clock.Now())
	}
	return f
}

// retryAfter is how long a receiver has us wait; 0 where it does not say.
func retryAfter(text string, now time.Time) time.Duration {
	if text == "" {
		return 0
	}
	if n, err := strconv.Atoi(text); err == nil {
		return min(max(time.Duration(min(n, 1e6))*time.Second, 0), mostAsked)
	}
	retry, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(retry.Sub(now), 0), mostAsked)
}

// partial reads the answer to OTLP: field 1 is what was not taken, with rejected points (1) and why (2).
func (d *destination) partial(kind string, said []byte) (rejected int, err *failure) {
	if len(said) == 0 || kind == "application/json" {
		return 0, nil
	}
	for len(said) > 0 {
		field, kind, n := protowire.ConsumeTag(said)
		if n < 0 {
			return 0, &failure{what: "does not answer in OTLP", try: "check that the address is an OTLP receiver's"}
		}
		said = said[n:]
		if n = protowire.ConsumeFieldValue(field, kind, said); n < 0 {
			return 0, &failure{what: "does not answer in OTLP", try: "check that the address is an OTLP receiver's"}
		}
		if field == 1 && kind == protowire.BytesType {
			inner, _ := protowire.ConsumeBytes(said)
			rejected, err = partialSuccess(inner)
		}
		said = said[n:]
	}
	return rejected, err
}

func partialSuccess(b []byte) (rejected int, err *failure) {
	var why string
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			break
		}
		b = b[n:]
		switch {
		case field == 1 && kind == protowire.VarintType:
			v, _ := protowire.ConsumeVarint(b)
			rejected = int(min(v, 1<<30)) //nolint:gosec // bounded
		case field == 2 && kind == protowire.BytesType:
			text, _ := protowire.ConsumeBytes(b)
			why = printable(string(text))
		}
		if n = protowire.ConsumeFieldValue(field, kind, b); n < 0 {
			break
		}
		b = b[n:]
	}
	if rejected == 0 {
		return 0, nil // a warning at most
	}
	return rejected, &failure{what: "does not accept everything", try: "see the log for its reason", cause: errors.New(cmp.Or(why, "it gives no reason"))}
}

// printable is a text of a receiver, in one line that is not long.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > mostTold {
		text = string(runes[:mostTold]) + "…"
	}
	return text
}

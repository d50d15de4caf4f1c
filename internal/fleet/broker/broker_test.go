package broker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/helper"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

func TestMain(m *testing.M) {
	if helper.Asked(os.Args) {
		os.Exit(helper.Run(os.Args, map[string]func(*helper.Task){Name: func(t *helper.Task) { Serve(t, nil) }}))
	}
	os.Exit(testkit.RunTests(m))
}

func start(t *testing.T, dir, listen string) *Broker {
	t.Helper()
	b, err := Start(t.Context(), Config{Dir: dir, Listen: listen, Patience: testkit.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(t, b) })
	return b
}

func closeAll(t *testing.T, b interface{ Close() error }) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func credentials(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "creds")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// member joins and connects.
func member(t *testing.T, b *Broker, kind Kind, name string) *bus.Bus {
	t.Helper()
	text, err := b.Authority().Join(kind, name)
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, b.Addr(), text, kind, name)
}

func connect(t *testing.T, addr net.Addr, text string, kind Kind, name string) *bus.Bus {
	t.Helper()
	cfg := bus.Config{URLs: []string{"tls://" + addr.String()}, Credentials: credentials(t, text), Name: name, Patience: testkit.Patience}
	if kind == Node {
		cfg.Node = name
	}
	c, err := bus.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(t, c) })
	testkit.Until(t, "connected", func() bool { return c.State().Connected })
	return c
}

func TestNodeMayDoItsOwn(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir(), "127.0.0.1:0")
	const name = "lab:gpu 1.é"
	node, hub, recorder := member(t, b, Node, name), member(t, b, Hub, "hub-1"), member(t, b, Recorder, "rec-1")
	ctx := t.Context()
	if err := hub.Prepare(ctx, bus.Limits{}); err != nil {
		t.Fatal(err)
	}
	if err := recorder.Prepare(ctx, bus.Limits{}); err != nil {
		t.Fatal(err)
	}
	live := make(chan string, 9)
	if _, err := hub.Subscribe(bus.AllLive, func(m *nats.Msg) { live <- m.Subject }); err != nil {
		t.Fatal(err)
	}
	if err := hub.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	if err := node.Conn().Publish(bus.Live(name), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if subject := testkit.Receive(t, "a live value", live); subject != bus.Live(name) {
		t.Errorf("got %s", subject)
	}
	if err := node.Put(ctx, name, []byte("whole")); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{bus.Event(name), bus.Past(name)} {
		if _, err := node.JetStream().Publish(ctx, subject, []byte("x"), jetstream.WithMsgID("1")); err != nil {
			t.Errorf("%s: %v", subject, err)
		}
	}
	// A question is answered; twice it can't be.
	if _, err := node.Subscribe(bus.Ask(name), func(m *nats.Msg) { _ = m.Respond([]byte("yes")) }); err != nil {
		t.Fatal(err)
	}
	if err := node.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	if answer, err := hub.Conn().RequestWithContext(ctx, bus.Ask(name), nil); err != nil || string(answer.Data) != "yes" {
		t.Fatalf("answer %v, %v", answer, err)
	}
	// The hub sees the bucket and the events, and the recorder takes the past.
	var bucket jetstream.KeyValue
	var err error
	testkit.Until(t, "the bucket", func() bool {
		bucket, err = hub.JetStream().KeyValue(ctx, bus.Bucket)
		return err == nil
	}, func() any { return err })
	watcher, err := bucket.WatchAll(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watcher.Stop() }()
	entry := testkit.Receive(t, "a value of the bucket", watcher.Updates())
	if entry == nil || entry.Key() != bus.Token(name) || string(entry.Value()) != "whole" {
		t.Errorf("watched %v", entry)
	}
	events, err := hub.JetStream().OrderedConsumer(ctx, bus.EventStream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := events.Next(jetstream.FetchMaxWait(testkit.Patience)); err != nil || m.Subject() != bus.Event(name) {
		t.Errorf("event: %v, %v", m, err)
	}
	// NATS says that nobody answers while it puts an account's rights anew; whoever asks does so again.
	var past jetstream.Consumer
	testkit.Until(t, "a consumer of the past", func() bool {
		past, err = recorder.JetStream().CreateOrUpdateConsumer(ctx, bus.PastStream, jetstream.ConsumerConfig{Durable: "recorders", AckPolicy: jetstream.AckExplicitPolicy})
		return err == nil
	}, func() any { return err })
	m, err := past.Next(jetstream.FetchMaxWait(testkit.Patience))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.DoubleAck(ctx); err != nil {
		t.Errorf("ack: %v", err)
	}
	for who, c := range map[string]*bus.Bus{"node": node, "hub": hub, "recorder": recorder} {
		if s := c.State(); s.Err != nil {
			t.Errorf("%s: %v", who, s.Err)
		}
	}
}

// A node can't publish as another node, read messages of others, or change stored data, in any way.
func TestNodeMayDoNothingElse(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir(), "127.0.0.1:0")
	bad, good := member(t, b, Node, "bad"), member(t, b, Node, "good")
	ctx := t.Context()
	if err := good.Put(ctx, "good", []byte("whole")); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{bus.Event("good"), bus.Past("good"), bus.Past("bad")} {
		c := good
		if subject == bus.Past("bad") {
			c = bad
		}
		if _, err := c.JetStream().Publish(ctx, subject, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	denied := make(chan error, 100)
	bad.Conn().SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err })
	violation := func(what string) {
		t.Helper()
		if err := bad.Conn().Flush(); err != nil {
			t.Fatal(err)
		}
		if err := testkit.Receive(t, "that it is not allowed: "+what, denied); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, subject := range []string{
		bus.Live("good"), bus.Event("good"), bus.Past("good"), bus.Key("good"), bus.Hubs, bus.Ask("good"), bus.Ask("bad"), bus.Inbox("good") + ".x", "_INBOX.x.y",
		"$JS.API.INFO", "$JS.API.STREAM.INFO." + bus.BucketStream, "$JS.API.STREAM.DELETE." + bus.BucketStream, "$JS.API.STREAM.UPDATE." + bus.EventStream,
		"$JS.API.STREAM.PURGE." + bus.PastStream, "$JS.API.CONSUMER.CREATE." + bus.EventStream, "$JS.API.STREAM.NAMES", "$JS.API.STREAM.CREATE.MINE",
		"$JS.API.DIRECT.GET." + bus.BucketStream + ".$KV.gpuwhy_nodes.good", "$JS.ACK." + bus.PastStream + ".a.1.1.1.1.1", "$SYS.REQ.SERVER.PING",
	} {
		if err := bad.Conn().Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		violation("publish " + subject)
	}
	for _, subject := range []string{
		">", "gpuwhy.>", bus.AllLive, bus.Live("good"), bus.Event("good"), bus.AllAsk, bus.Ask("good"), "_INBOX.>", bus.Inbox("good") + ".>", bus.Key("good"), "$JS.>", "$SYS.>",
	} {
		if _, err := bad.Conn().SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		violation("subscribe " + subject)
	}
	// What it may publish must not remove what others have: no roll-up of the stream, and no answer of JetStream that
	// is an order to JetStream.
	for _, subject := range []string{bus.Key("bad"), bus.Event("bad"), bus.Past("bad")} {
		for _, rollup := range []string{"all", "sub"} {
			m := nats.NewMsg(subject)
			m.Header.Set("Nats-Rollup", rollup)
			if _, err := bad.JetStream().PublishMsg(ctx, m); err == nil {
				t.Errorf("%s takes a roll-up of %s", subject, rollup)
			}
		}
		for _, order := range []string{"STREAM.PURGE", "STREAM.MSG.DELETE", "STREAM.DELETE"} {
			for _, stream := range []string{bus.BucketStream, bus.EventStream, bus.PastStream} {
				if err := bad.Conn().PublishRequest(subject, "$JS.API."+order+"."+stream, []byte("x")); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 20 { // each ack has a number of a message in it
			if err := bad.Conn().PublishRequest(subject, "$JS.API.STREAM.PURGE."+bus.BucketStream, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := bad.Put(ctx, "bad", []byte("last")); err != nil { // all before was handled
		t.Fatal(err)
	}
	recorder := member(t, b, own, "probe")
	for stream, subject := range map[string]string{bus.BucketStream: bus.Key("good"), bus.EventStream: bus.Event("good"), bus.PastStream: bus.Past("good")} {
		s, err := recorder.JetStream().Stream(ctx, stream)
		if err != nil {
			t.Errorf("%s: %v", stream, err)
			continue
		}
		if _, err := s.GetLastMsgForSubject(ctx, subject); err != nil {
			t.Errorf("%s has lost what good has sent: %v", stream, err)
		}
	}
}

// The program with the server publishes its own machine, under any name, and answers hubs.
func TestServerMayPublish(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir(), "127.0.0.1:0")
	const name = "lab:its own"
	server, hub := member(t, b, own, "server"), member(t, b, Hub, "hub")
	live := make(chan string, 1)
	if _, err := hub.Subscribe(bus.AllLive, func(m *nats.Msg) { live <- m.Subject }); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Subscribe(bus.Ask(name), func(m *nats.Msg) { _ = m.Respond([]byte("yes")) }); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*bus.Bus{hub, server} {
		if err := c.Conn().Flush(); err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	if answer, err := hub.Conn().RequestWithContext(ctx, bus.Ask(name), nil); err != nil || string(answer.Data) != "yes" {
		t.Errorf("answer %v, %v", answer, err)
	}
	if _, err := server.JetStream().Publish(ctx, bus.Event(name), []byte("x"), jetstream.WithMsgID("1")); err != nil {
		t.Error(err)
	}
	if err := server.Conn().Publish(bus.Live(name), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if subject := testkit.Receive(t, "a live value", live); subject != bus.Live(name) {
		t.Errorf("got %s", subject)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, dir, "127.0.0.1:0")
	gone, stays := member(t, b, Node, "gone"), member(t, b, Node, "stays")
	ctx := t.Context()
	for name, c := range map[string]*bus.Bus{"gone": gone, "stays": stays} {
		if err := c.Put(ctx, name, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	command, err := OpenAuthority(dir) // of another process
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Remove("gone"); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "revoked", func() bool {
		s := gone.State()
		return !s.Connected && s.Err != nil && strings.Contains(s.Err.What, "revoked")
	})
	hub := member(t, b, Hub, "hub")
	bucket, err := hub.JetStream().KeyValue(ctx, bus.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "out of the bucket", func() bool {
		_, err := bucket.Get(ctx, bus.Token("gone"))
		return errors.Is(err, jetstream.ErrKeyNotFound)
	})
	if _, err := bucket.Get(ctx, bus.Token("stays")); err != nil {
		t.Errorf("the other node: %v", err)
	}
	if s := stays.State(); !s.Connected || s.Err != nil {
		t.Errorf("the other node: %+v", s)
	}
	var advice *gpu.Advice
	if err := command.Remove("gone"); !errors.As(err, &advice) {
		t.Errorf("removed twice: %v", err)
	}
	again := member(t, b, Node, "gone")
	if err := again.Put(ctx, "gone", []byte("new")); err != nil {
		t.Errorf("joined anew: %v", err)
	}
	if s := gone.State(); s.Connected {
		t.Error("the removed credentials work again")
	}
	members, err := command.Members()
	if err != nil || len(members) != 4 {
		t.Fatalf("members %v, %v", members, err)
	}
	if info, err := os.Stat(command.file()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the keys: %v, %v", info.Mode(), err)
	}
}

// A restarted server has the same keys and messages, and its clients reconnect.
func TestRestart(t *testing.T) {
	t.Parallel()
	ports, err := testkit.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	dir, addr := t.TempDir(), fmt.Sprintf("127.0.0.1:%d", ports[0])
	first, err := Start(t.Context(), Config{Dir: dir, Listen: addr, Patience: testkit.Patience})
	if err != nil {
		t.Fatal(err)
	}
	node := member(t, first, Node, "n")
	ctx := t.Context()
	if err := node.Put(ctx, "n", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	closeAll(t, first)
	testkit.Until(t, "the loss is seen", func() bool { s := node.State(); return !s.Connected && s.Err != nil && s.Err.Try != "" })
	if err := first.Authority().Remove("nobody"); err == nil {
		t.Error("nobody was removed")
	}
	if _, err := first.Authority().Join(Node, "while it is down"); err != nil {
		t.Error(err)
	}
	second := start(t, dir, addr)
	testkit.Until(t, "connected again", func() bool { return node.State().Connected })
	hub := member(t, second, Hub, "h")
	bucket, err := hub.JetStream().KeyValue(ctx, bus.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	if entry, err := bucket.Get(ctx, "n"); err != nil || string(entry.Value()) != "kept" {
		t.Errorf("kept: %v, %v", entry, err)
	}
	if err := node.Put(ctx, "n", []byte("new")); err != nil {
		t.Error(err)
	}
	if s := node.State(); s.Err != nil {
		t.Errorf("state: %v", s.Err)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, dir, "127.0.0.1:0")
	for name, cfg := range map[string]Config{
		"two of one folder": {Dir: dir, Listen: "127.0.0.1:0"},
		"no folder":         {Listen: "127.0.0.1:0"},
		"busy port":         {Dir: t.TempDir(), Listen: b.Addr().String()},
		"no port":           {Dir: t.TempDir(), Listen: "127.0.0.1"},
	} {
		second, err := Start(t.Context(), cfg)
		var advice *gpu.Advice
		if !errors.As(err, &advice) || advice.Try == "" {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			closeAll(t, second)
		}
	}
	for _, name := range []string{"", strings.Repeat("x", LongestName+1), "a\nb", "\xff", "a\x7f"} {
		if _, err := b.Authority().Join(Node, name); err == nil {
			t.Errorf("%.20q joined", name)
		}
	}
	if _, err := b.Authority().Join(Node, strings.Repeat("é", LongestName/2)); err != nil {
		t.Error(err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	b, other := start(t, t.TempDir(), "127.0.0.1:0"), start(t, t.TempDir(), "127.0.0.1:0")
	expired, err := b.Authority().join(Node, "n", time.Now().Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.Authority().Join(Node, "n")
	if err != nil {
		t.Fatal(err)
	}
	jwt, ca, _ := strings.Cut(foreign, "-----BEGIN CERTIFICATE")
	d, err := b.Authority().read()
	if err != nil {
		t.Fatal(err)
	}
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() }) // after the parallel subtests
	go func() {
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			_ = conn.Close()
		}
	}()
	for name, tt := range map[string]struct{ url, creds, want string }{
		"expired":                {"tls://" + b.Addr().String(), expired, "expired"},
		"of another fleet":       {"tls://" + b.Addr().String(), jwt + d.CA, "rejects the fleet credentials"},
		"another CA":             {"tls://" + b.Addr().String(), jwt + "-----BEGIN CERTIFICATE" + ca, "can't be trusted"},
		"a CA that is not known": {"nats://" + b.Addr().String(), jwt, "can't be trusted"},
		"no credentials":         {"nats://" + b.Addr().String(), d.CA, "rejects the fleet credentials"},
		"no server of NATS":      {"tls://" + silent.Addr().String(), expired, "NATS server"},
		"nobody":                 {"tls://127.0.0.1:1", expired, "no NATS server listens there"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := bus.Open(bus.Config{URLs: []string{tt.url}, Credentials: credentials(t, tt.creds), Node: "n", Patience: testkit.Patience})
			if err != nil {
				t.Fatal(err)
			}
			defer closeAll(t, c)
			testkit.Until(t, tt.want, func() bool {
				s := c.State()
				return !s.Connected && s.Err != nil && strings.Contains(s.Err.What, tt.want) && s.Err.Try != "" && !c.Conn().IsClosed()
			})
		})
	}
}

// Acknowledged messages are on the disk, also after the server's storage was restarted.
func TestWhatIsAcknowledgedIsOnTheDisk(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir(), "127.0.0.1:0")
	synced := func(when string) {
		t.Helper()
		if c := b.server.JetStreamConfig(); c == nil || !c.SyncAlways {
			t.Errorf("%s its files are kept so: %+v", when, c)
		}
	}
	synced("after the start")
	failed := "write error"
	b.said.unwritten.Store(&failed) // as after a full disk
	testkit.Until(t, "that it is mended", func() bool {
		trouble, _ := b.Trouble()
		return trouble == nil && b.said.unwritten.Load() == nil
	})
	synced("after it was mended")
}

// BenchmarkKeep measures the cost of storing one message of the past, of about the size that a machine with eight GPUs sends. A machine sends one at a time.
func BenchmarkKeep(b *testing.B) {
	server, err := Start(b.Context(), Config{Dir: b.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	text, err := server.Authority().Join(Node, "gpu-1")
	if err != nil {
		b.Fatal(err)
	}
	creds := filepath.Join(b.TempDir(), "creds")
	if err := os.WriteFile(creds, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	c, err := bus.Open(bus.Config{URLs: []string{"tls://" + server.Addr().String()}, Credentials: creds, Node: "gpu-1"})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	message := make([]byte, 6<<10)
	for b.Loop() {
		if _, err := c.JetStream().Publish(b.Context(), bus.Past("gpu-1"), message); err != nil {
			b.Fatal(err)
		}
	}
}

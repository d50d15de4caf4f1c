package bus

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/fleet/natstest"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

func alone(t *testing.T) *natsserver.Options {
	return &natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, JetStreamMaxStore: 8 << 30, StoreDir: t.TempDir()}
}

func open(t *testing.T, cfg Config) *Bus {
	t.Helper()
	cfg.shortest, cfg.check, cfg.Patience = 10*time.Millisecond, 100*time.Millisecond, cmp.Or(cfg.Patience, testkit.Patience)
	b, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func ports(t *testing.T, n int) []int {
	t.Helper()
	ports, err := testkit.FreePorts(n)
	if err != nil {
		t.Fatal(err)
	}
	return ports
}

// Of three servers, losing one changes nothing. Without two, the state says that there is no majority. Once they are back, all is well.
func TestClusterOfThree(t *testing.T) {
	t.Parallel()
	ports := ports(t, 6)
	var routes, urls []string
	for i := range 3 {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", ports[3+i]))
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", ports[i]))
	}
	options := make([]natsserver.Options, 3)
	servers := make([]*natsserver.Server, 3)
	for i := range servers {
		options[i] = natsserver.Options{
			ServerName: fmt.Sprintf("s%d", i), Host: "127.0.0.1", Port: ports[i], JetStream: true, JetStreamMaxStore: 8 << 30, StoreDir: t.TempDir(),
			Cluster: natsserver.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: ports[3+i]}, Routes: natsserver.RoutesFromStr(strings.Join(routes, ",")),
		}
		o := options[i]
		servers[i] = natstest.Start(t, &o)
	}
	testkit.Until(t, "a leader", func() bool {
		for _, s := range servers {
			if s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == 3 {
				return true
			}
		}
		return false
	})
	// While servers choose a leader, answers are lost: nobody waits long for one, and asks again.
	cfg := Config{URLs: urls, Patience: patience}
	hub, other := open(t, cfg), open(t, cfg)
	ctx := t.Context()
	testkit.Until(t, "connected", func() bool { return hub.State().Connected && other.State().Connected })
	var both sync.WaitGroup // at once
	for _, b := range []*Bus{hub, other} {
		both.Go(func() {
			err := b.Prepare(ctx, Limits{})
			if err != nil && !errors.Is(err, context.DeadlineExceeded) && codeOf(err) != codeNotAvailable {
				t.Error(err)
			}
		})
	}
	both.Wait()
	for _, b := range []*Bus{hub, other} {
		testkit.Until(t, "the streams are made", func() bool { return b.Prepare(ctx, Limits{}) == nil })
	}
	for _, name := range []string{BucketStream, EventStream, PastStream} {
		s, err := hub.JetStream().Stream(ctx, name)
		if err != nil || s.CachedInfo().Config.Replicas != 3 {
			t.Fatalf("%s: %v, %+v", name, err, s)
		}
	}
	put := func(value string) bool { return hub.Put(ctx, "n", []byte(value)) == nil }
	testkit.Until(t, "put", func() bool { return put("one") })
	natstest.Stop(servers[0])
	testkit.Until(t, "put with two servers", func() bool { return put("two") })
	testkit.Until(t, "well with two servers", func() bool { s := hub.State(); return s.Connected && s.Err == nil })
	natstest.Stop(servers[1])
	testkit.Until(t, "it is said that there is no majority", func() bool {
		s := hub.State()
		return s.Connected && s.Err != nil && strings.Contains(s.Err.What, "no majority") && s.Err.Try != ""
	})
	for i := range 2 {
		o := options[i]
		servers[i] = natstest.Start(t, &o)
	}
	testkit.Until(t, "well again", func() bool { s := hub.State(); return s.Connected && s.Err == nil })
	testkit.Until(t, "put with three servers", func() bool { return put("three") })
	bucket, err := hub.JetStream().KeyValue(ctx, Bucket)
	if err != nil {
		t.Fatal(err)
	}
	// Any of the three may answer, also one that has not yet caught up with what was put.
	testkit.Until(t, "each server has what was put", func() bool {
		entry, err := bucket.Get(ctx, "n")
		return err == nil && string(entry.Value()) == "three"
	})
}

// A full stream is reported to the node that filled it, with what to do. A recorder that takes messages frees space.
func TestFull(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, alone(t))
	b := open(t, Config{URLs: []string{s.ClientURL()}})
	ctx := t.Context()
	testkit.Until(t, "connected", func() bool { return b.State().Connected })
	if err := b.Prepare(ctx, Limits{PastNode: 2, PastBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	publish := func(node string) error {
		_, err := b.JetStream().Publish(ctx, Past(node), []byte("x"))
		return err
	}
	if err := errors.Join(publish("a"), publish("a")); err != nil {
		t.Fatal(err)
	}
	err := publish("a")
	if advice := explainStored(err); advice == nil || !strings.Contains(advice.What, "full") {
		t.Errorf("a full stream: %v, %v", err, advice)
	}
	if b.Note(err); b.State().Err == nil || !strings.Contains(b.State().Err.What, "full") {
		t.Errorf("a full stream: %+v", b.State())
	}
	if err := publish("b"); err != nil {
		t.Errorf("another node: %v", err)
	}
	// Limits that are there stay, and given ones are set.
	if err := b.Prepare(ctx, Limits{EventBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int64{PastStream: 1 << 20, EventStream: 1 << 20, BucketStream: defaults.BucketBytes} {
		stream, err := b.JetStream().Stream(ctx, name)
		if err != nil || stream.CachedInfo().Config.MaxBytes != want {
			t.Errorf("%s: %v: want at most %d bytes of %+v", name, err, want, stream.CachedInfo().Config)
		}
	}
}

// Prepare takes roll-ups away from a bucket that NATS's own client has created.
func TestBucketOfOthers(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, alone(t))
	b := open(t, Config{URLs: []string{s.ClientURL()}})
	ctx := t.Context()
	testkit.Until(t, "connected", func() bool { return b.State().Connected })
	if _, err := b.JetStream().CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: Bucket}); err != nil {
		t.Fatal(err)
	}
	if err := b.Prepare(ctx, Limits{}); err != nil {
		t.Fatal(err)
	}
	stream, err := b.JetStream().Stream(ctx, BucketStream)
	if err != nil || stream.CachedInfo().Config.AllowRollup {
		t.Errorf("%v: roll-ups are allowed", err)
	}
}

func TestNoJetStream(t *testing.T) {
	t.Parallel()
	o := alone(t)
	o.JetStream = false
	b := open(t, Config{URLs: []string{natstest.Start(t, o).ClientURL()}})
	testkit.Until(t, "connected", func() bool { return b.State().Connected })
	ctx := t.Context()
	var advice *gpu.Advice
	if err := b.Prepare(ctx, Limits{}); !errors.As(err, &advice) || !strings.Contains(b.State().Err.Text(), "JetStream") {
		t.Errorf("%v, %+v", err, b.State())
	}
}

// A server accepts the example for administrators, with the test's own keys, and it lets a node do what it must.
func TestExampleForAdministrators(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(doc), "```\njetstream {")
	example, _, ok := strings.Cut("jetstream {"+example, "```")
	if !ok {
		t.Fatal("no example")
	}
	dir := t.TempDir()
	var creds []string
	for _, old := range []string{"UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4", "UA7SQ4VZ4DE5TOP5ESWV7T3RUPZPAYFJPYSMY42OVNTCXFLWWIUZP57Q"} {
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, _ := pair.PublicKey()
		seed, _ := pair.Seed()
		if !strings.Contains(example, old) {
			t.Fatalf("%s is not in the example", old)
		}
		example = strings.Replace(example, old, public, 1)
		name := filepath.Join(dir, public)
		if err := os.WriteFile(name, append(seed, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		creds = append(creds, name)
	}
	config := filepath.Join(dir, "nats.conf")
	if err := os.WriteFile(config, []byte(strings.Replace(example, "/var/lib/nats", t.TempDir(), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := natsserver.ProcessConfigFile(config)
	if err != nil {
		t.Fatal(err)
	}
	o.Host, o.Port = "127.0.0.1", natsserver.RANDOM_PORT
	s := natstest.Start(t, o)
	hub, node := open(t, Config{URLs: []string{s.ClientURL()}, Credentials: creds[1]}), open(t, Config{URLs: []string{s.ClientURL()}, Credentials: creds[0], Node: "gpu-2"})
	ctx := t.Context()
	testkit.Until(t, "connected", func() bool { return hub.State().Connected && node.State().Connected })
	if err := hub.Prepare(ctx, Limits{BucketBytes: 1 << 20, EventBytes: 1 << 20, PastBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if err := node.Put(ctx, "gpu-2", []byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := node.JetStream().Publish(ctx, Past("gpu-2"), []byte("x")); err != nil {
		t.Error(err)
	}
	if err := node.Conn().Publish(Key("gpu-3"), []byte("x")); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "it is said that this is not allowed", func() bool {
		s := node.State()
		return s.Err != nil && errors.Is(s.Err.Err, nats.ErrPermissionViolation)
	})
	bucket, err := hub.JetStream().KeyValue(ctx, Bucket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Get(ctx, Token("gpu-3")); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Errorf("it publishes as another: %v", err)
	}
}

// Passwords and tokens work, also with a server that starts later.
func TestCredentialsOfOtherKinds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		set  func(*natsserver.Options)
	}{
		"password": {"# mine\nme:secret:er\n", func(o *natsserver.Options) { o.Username, o.Password = "me", "secret:er" }},
		"token":    {"s3cret", func(o *natsserver.Options) { o.Authorization = "s3cret" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "creds")
			if err := os.WriteFile(file, []byte(tt.text), 0o644); err != nil {
				t.Fatal(err)
			}
			o := alone(t)
			o.Port = ports(t, 1)[0]
			tt.set(o)
			var log bytes.Buffer
			b := open(t, Config{URLs: []string{fmt.Sprintf("nats://127.0.0.1:%d", o.Port)}, Credentials: file, Log: slog.New(slog.NewTextHandler(&log, nil))})
			testkit.Until(t, "nobody listens", func() bool { s := b.State(); return s.Err != nil && strings.Contains(s.Err.What, "no NATS server") })
			natstest.Start(t, o)
			testkit.Until(t, "connected", func() bool { s := b.State(); return s.Connected && s.Err == nil && s.Server != "" })
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			said := log.String()
			if !strings.Contains(said, "others may read") || strings.Count(said, "no NATS server") != 1 || strings.Contains(said, "cret") {
				t.Errorf("the log:\n%s", said)
			}
		})
	}
}

func TestBadCredentials(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "a\nb", "-----BEGIN NATS USER JWT-----\nxx\n------END NATS USER JWT------\n", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\ntoken",
		"-----BEGIN USER NKEY SEED-----\nSUxxxx\n------END USER NKEY SEED------\n", "to\x00ken", "SU" + strings.Repeat("A", 56), strings.Repeat("x", longest+1),
	} {
		file := filepath.Join(t.TempDir(), "creds")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var advice *gpu.Advice
		if _, err := Open(Config{URLs: []string{"nats://127.0.0.1"}, Credentials: file}); !errors.As(err, &advice) || advice.Try == "" {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	var advice *gpu.Advice
	if _, err := Open(Config{URLs: []string{"nats://127.0.0.1"}, Credentials: filepath.Join(t.TempDir(), "none")}); !errors.As(err, &advice) {
		t.Errorf("no file: %v", err)
	}
	for _, url := range []string{"", "x", "http://x", "nats://u@x", "nats://x/y", "nats://", "nats:x", "nats://x:0", "nats://x:99999"} {
		if _, err := Open(Config{URLs: []string{url}}); !errors.As(err, &advice) {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// Connected waits for a server that starts later, but no longer than asked.
func TestConnected(t *testing.T) {
	t.Parallel()
	s := natstest.InProcess(t)
	s.Stop()
	b := open(t, Config{InProcess: s, Patience: testkit.Patience, shortest: time.Millisecond})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if b.Connected(gone) {
		t.Error("connected to a server that is stopped")
	}
	connected := make(chan bool, 1)
	go func() { connected <- b.Connected(t.Context()) }()
	s.Start()
	if !testkit.Receive(t, "a connection", connected) {
		t.Fatal("not connected to a server that is there")
	}
	if err := b.Prepare(t.Context(), Limits{}); err != nil {
		t.Error(err)
	}
}

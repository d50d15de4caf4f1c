//go:build !race

package main

import (
	"bytes"
	varint "encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// Machines leave a fleet in every possible way, and programs of other versions take part in it.
func TestFleetMembers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, t.TempDir())
	hub := f.hub("hub")
	creds := f.joins("gone")
	agents := map[string]*program{}
	for _, name := range []string{"stays", "ended", "killed"} {
		agents[name] = f.agent(name, nil, "--source=simulate:rtx-4090", "--state-dir=none")
	}
	agents["gone"] = f.agent("gone", nil, "--source=simulate:rtx-4090", "--state-dir=none", "--fleet-credentials="+creds)
	w := hub.watch()
	testkit.Until(t, "all of them", func() bool { return w.lives("server", "stays", "ended", "killed", "gone") })
	why := func(node, says string) func() bool {
		return func() bool {
			u, _ := w.lastUpdate(node)
			return u.SilentSince != "" && strings.Contains(u.Reason, says)
		}
	}

	story := stories(t)
	story("ended", func(t *testing.T) {
		if err := agents["ended"].stop(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		testkit.Until(t, "it was ended", why("ended", "gpuwhy on that machine was stopped"))
		agents["killed"].kill()
		testkit.Until(t, "nothing comes", why("killed", "nothing arrives from that machine"))
	})
	story("revoked", func(t *testing.T) {
		if r := command(t, nil, "fleet", "remove", "gone", "--state-dir="+f.state); r.code != exitOK {
			t.Fatalf("%+v", r)
		}
		agents["gone"].log.await(t, "revoked")
		agents["gone"].part("fleet", "failed", "revoked", "join")
		for _, p := range []*program{hub, f.server} {
			testkit.Until(t, "it is gone", func() bool {
				var nodes []contract.ClusterNode
				p.get("/api/v1/gpu/nodes", &nodes)
				for _, n := range nodes {
					if n.Name == "gone" {
						return false
					}
				}
				return len(nodes) == 4
			})
		}
		testkit.Until(t, "others go on", w.news("stays", "server"))
		text, err := os.ReadFile(f.joins("gone"))
		if err == nil {
			err = os.WriteFile(creds, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = agents["gone"].stop(syscall.SIGTERM)
		agents["gone"] = f.agent("gone", nil, "--source=simulate:rtx-4090", "--state-dir=none", "--fleet-credentials="+creds)
		testkit.Until(t, "it is back", w.news("gone"))
	})
	story("old", func(t *testing.T) {
		text, err := os.ReadFile(filepath.Join("..", "..", "internal", "fleet", "wire", "testdata", "older.json"))
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.Replace(text, []byte("2026-03-14T15:09:26Z"), []byte(time.Now().UTC().Format(time.RFC3339)), 1)
		b, err := bus.Open(bus.Config{URLs: []string{"tls://" + f.addr}, Credentials: f.joins("desk", "--cluster=c"), Node: "c:desk"})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		testkit.Until(t, "a connection", func() bool { return b.State().Connected })
		send := func(major byte) {
			t.Helper()
			if err := b.Put(t.Context(), "c:desk", sealed(t, major, text)); err != nil {
				t.Fatal(err)
			}
		}
		var u contract.Update
		testkit.Until(t, "the machine", func() bool {
			send(1) // again, since it would be silent soon
			u, _ = w.lastUpdate("c:desk")
			return len(u.GPUs) == 1 && u.SilentSince == ""
		}, func() any { return u })
		if value(t, "temperature", u.GPUs[0].Temperature.GPU) != 71 || !strings.Contains(u.Why, "train.py") {
			t.Errorf("of an older version: %+v", u)
		}
		send(2)
		page := ""
		said := func() bool {
			page = strings.ToLower(hub.text("/node/c:desk/"))
			return strings.Contains(page, "speaks version 2.0") && strings.Contains(page, "update gpuwhy here")
		}
		defer func() {
			if t.Failed() {
				t.Log(page)
			}
		}()
		testkit.Until(t, "another version is told at the machine", said)
		hub.log.await(t, "speaks version 2.0")
		for range 20 {
			if err := b.Conn().Publish(bus.Live("c:desk"), sealed(t, 2, text)); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Until(t, "each was counted", func() bool {
			_, metrics := hub.fetch("/metrics", nil)
			return strings.Contains(string(metrics), `gpuwhy_fleet_messages_refused_total{node="hub",sender="c:desk"} 21`)
		})
		if n := strings.Count(hub.log.String(), "speaks version 2.0"); n != 1 {
			t.Errorf("it stands in the log %d times", n)
		}
	})
	for _, p := range []*program{hub, f.server, agents["stays"], agents["gone"]} {
		quiet(t, p)
	}
}

// sealed builds a message of some protocol version by hand, as docs/fleet.md describes.
func sealed(t *testing.T, major byte, record []byte) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	rest := varint.AppendUvarint(varint.AppendUvarint([]byte{1}, 1), uint64(len(record)))
	rest = append(append(rest, byte(len("old"))), "old"...)
	return append(append([]byte{'G', 'P', 'U', 'W', major, 0, byte(len(rest))}, rest...), e.EncodeAll(record, nil)...)
}

// A program that can't start says why in one line, and what to do.
func TestFleetProgramsWithoutAFleet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("-----BEGIN NATS USER JWT-----\nx\n------END NATS USER JWT------\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, says string }{
		{"agent", "--fleet"},
		{"agent --fleet-listen=127.0.0.1:0", "--fleet-listen"},
		{"agent --fleet=tls://127.0.0.1:1 --fleet-credentials=/nowhere", "/nowhere"},
		{"agent --fleet=tls://127.0.0.1:1 --fleet-credentials=" + bad, "JWT"},
		{"hub", "--fleet"},
		{"hub --fleet=tls://127.0.0.1:1 --fleet-listen=127.0.0.1:0 --state-dir=" + dir, "--fleet-listen"},
		{"hub --fleet-listen=127.0.0.1:0 --state-dir=none", "--state-dir"},
		{"serve --fleet=tls://127.0.0.1:1 --fleet-listen=127.0.0.1:0 --state-dir=" + dir, "--fleet-listen"},
		{"record", "--fleet"},
		{"record --fleet=tls://127.0.0.1:1 --history=off", "--history"},
		{"record --fleet=tls://127.0.0.1:1 --fleet-credentials=/nowhere --state-dir=" + dir, "/nowhere"},
	} {
		args := strings.Fields(tt.args)
		if args[0] == "agent" || args[0] == "serve" {
			args = append(args, "--source=simulate:rtx-4090")
		}
		r := command(t, nil, args...)
		if r.code != exitUsage || !strings.Contains(r.stderr, tt.says) || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: %d, %q", tt.args, r.code, r.stderr)
		}
	}
}

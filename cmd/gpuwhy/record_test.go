//go:build !race

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/postgres"
)

// A recorder needs a fleet and a database, and says so.
func TestRecordNeedsAFleet(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"record", "--history=postgres://127.0.0.1/gpuwhy"}, "--fleet"},
		{[]string{"record", "--fleet=nats://127.0.0.1:1", "--history=off"}, "--history postgres://"},
		{[]string{"record", "--fleet=nats://127.0.0.1:1", "--fleet-credentials=/nowhere/x.creds", "--history=sqlite", "--state-dir=" + t.TempDir()}, "/nowhere/x.creds"},
	} {
		if r := command(t, nil, test.args...); r.code == exitOK || !strings.Contains(r.stderr, test.says) {
			t.Errorf("%q: exit status %d: %s", test.args, r.code, r.stderr)
		}
	}
}

// The data that recorders have stored about a hundred nodes says who used them, all together and each alone, even if no gpuwhy is running.
func TestUsageOfAFleet(t *testing.T) {
	t.Parallel()
	address := postgresServer(t).Schema()
	st, err := postgres.Open(postgres.Config{URL: address})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	b := store.Batch{Delivered: true}
	watts := store.DeviceColumns.Find("power_draw")
	for n := range 100 {
		k := store.Key{Node: fmt.Sprintf("lab:node-%03d", n), UUID: fmt.Sprint("GPU-", n)}
		b.Devices = append(b.Devices, store.Device{Node: k.Node, UUID: k.UUID, Name: "NVIDIA H100", Kind: gpu.Live, Order: 1})
		from, to := now.Add(-2*time.Hour), now.Add(-time.Hour)
		for _, tier := range []store.Tier{store.Minute, store.Quarter} {
			for at := from.Truncate(tier.Span()); at.Before(to); at = at.Add(tier.Span()) {
				draw := make([]store.Value, len(store.DeviceColumns))
				draw[watts] = store.Value{Least: 300, Mean: 300, Most: 300, Count: int(tier.Span() / (5 * time.Second))}
				b.Rows = append(b.Rows, store.Row{Key: k, Tier: tier, Time: at, Readings: draw[watts].Count, State: gpu.StateOK, Values: draw})
			}
		}
		b.Causes = append(b.Causes, store.Cause{
			Key: k, ID: "work", From: from, To: to, Kind: "work", Case: "steady", Sentence: "python works.", Short: "python", Confidence: 0.9, Order: 1,
		})
		b.Sessions = append(b.Sessions, store.Session{
			SessionKey: store.SessionKey{Key: k, Boot: "b", PID: 7, Begin: from}, User: fmt.Sprint("user-", n%10), Name: "python", From: from, To: to,
			Outcome: store.Ended, Seen: time.Hour, Busy: time.Hour, Order: 1,
		})
	}
	for range 2 {
		if err := st.Write(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	usage := func(args ...string) (answer contract.PastUsage) {
		t.Helper()
		r := command(t, nil, append([]string{"usage", "3h", "--json", noServer, "--history=" + address}, args...)...)
		if err := json.Unmarshal([]byte(r.stdout), &answer); err != nil || r.code != exitOK {
			t.Fatalf("%+v: %v", r, err)
		}
		return answer
	}
	all := usage()
	if len(all.Rows) != 10 || all.Rows[0].Sessions != 10 || all.Rows[9].Sessions != 10 {
		t.Errorf("of all: %+v", all.Rows)
	}
	if one := usage("--machine=lab:node-042"); len(one.Rows) != 1 || one.Rows[0].Sessions != 1 || one.Rows[0].Name != "user-2" {
		t.Errorf("of one: %+v", one.Rows)
	}
	if r := command(t, nil, "sessions", "3h", "--csv", noServer, "--history="+address); r.code != exitOK || strings.Count(r.stdout, "lab:node-") != 100 {
		t.Errorf("sessions: %+v", r)
	}
	if r := command(t, nil, "past", "3h", noServer, "--history="+address); r.code != exitOK || !strings.Contains(r.stdout, "node-") {
		t.Errorf("the past: %.2000s %s", r.stdout, r.stderr)
	}
}

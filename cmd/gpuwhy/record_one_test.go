//go:build !race

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/postgres"
	"github.com/gpuwhy/gpuwhy/internal/past/store/sqlite"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// allRows returns all rows and sessions of a machine in a database, as texts.
func allRows(t *testing.T, st store.Store, node string) (rows []string) {
	t.Helper()
	devices, err := st.Devices(t.Context())
	var q store.Query
	for i := range devices {
		if devices[i].Node == node {
			q.Keys = append(q.Keys, devices[i].Key())
		}
	}
	if len(q.Keys) == 0 {
		return nil
	}
	for _, q.Machines = range []bool{false, true} {
		for _, q.Tier = range store.Tiers {
			for r, failed := range st.Rows(t.Context(), q) {
				err = errors.Join(err, failed)
				rows = append(rows, fmt.Sprint(r.Key, r.Tier, r.Time.UnixMilli(), r.Readings, r.State, r.Values))
			}
		}
	}
	for s, failed := range st.Sessions(t.Context(), q) {
		err = errors.Join(err, failed)
		rows = append(rows, fmt.Sprint(s.Key, s.PID, s.From.UnixMilli(), s.To.UnixMilli(), s.Outcome, s.Joules))
	}
	if err := errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
	return rows
}

func onServer(t *testing.T, address string) store.Store {
	t.Helper()
	st, err := postgres.View(postgres.Config{URL: address, Patience: testkit.Patience})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func inFile(t *testing.T, dir string) store.Store {
	t.Helper()
	st, err := sqlite.View(t.Context(), filepath.Join(dir, historyFile))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// The server, recorders and agents share one database, as the documents say. It has every row that the machine itself has, and the server's
// own rows. A recorder with another database is refused, and stores nothing.
func TestOnePastOfAll(t *testing.T) {
	t.Parallel()
	address := postgresServer(t).Schema()
	f := &fleet{t: t, state: t.TempDir(), addr: freeAddress(t)}
	f.server = start(t, nil, "serve", "--fleet-listen="+f.addr, "--state-dir="+f.state, "--node=server", "--source=simulate:rtx-4090", pace, "--history="+address)
	record := func(name string, args ...string) *program {
		return background(t, nil, append([]string{"record", "--fleet=tls://" + f.addr, "--fleet-credentials=" + f.joins(name, "--recorder")}, args...)...)
	}
	record("one", "--history="+address)
	f.server.part("recorder", "ok")
	own := t.TempDir()
	other := record("other", "--history=sqlite", "--state-dir="+own)
	other.log.await(t, "recorded in another database")
	other.log.await(t, "--history postgres://")
	state := t.TempDir()
	a := f.agent("gpu-1", nil, "--source=simulate:rtx-4090", "--state-dir="+state)
	a.await("it reads", func(u contract.Update) bool { return len(u.GPUs) == 1 })
	a.remembered()
	for range 3 {
		a.remembered()
	}
	if err := a.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	want := allRows(t, inFile(t, state), "gpu-1")
	var got []string
	testkit.Until(t, "the database of all has all that the machine has", func() bool {
		got = allRows(t, onServer(t, address), "gpu-1")
		return slices.Equal(got, want)
	}, func() any { return fmt.Sprintf("%q\n%q", got, want) })
	if len(want) < 4 || len(allRows(t, onServer(t, address), "server")) < 4 {
		t.Errorf("%d rows of the machine", len(want))
	}
	if n := len(allRows(t, inFile(t, own), "gpu-1")); n > 0 {
		t.Errorf("the other database took %d of them", n)
	}
}

// Without a recorder, the server writes everything that machines deliver into its own file. The past of a second program with the same name is kept separately.
func TestTwoMachinesOfOneNameInOnePast(t *testing.T) {
	t.Parallel()
	f := newFleet(t, t.TempDir())
	states := map[string]string{}
	for _, which := range []string{"first", "second"} {
		states[which] = t.TempDir()
		a := f.agent("twin", nil, "--source=simulate:rtx-4090", "--state-dir="+states[which])
		a.await("it reads", func(u contract.Update) bool { return len(u.GPUs) == 1 })
		a.remembered()
		t.Cleanup(func() {
			if a.cmd.ProcessState == nil {
				_ = a.stop(syscall.SIGTERM)
			}
		})
	}
	var names []string
	testkit.Until(t, "both are in the past of the server", func() bool {
		st := inFile(t, f.state)
		devices, err := st.Devices(t.Context())
		if err := errors.Join(err, st.Close()); err != nil {
			t.Fatal(err)
		}
		names = names[:0]
		for _, d := range devices {
			if !slices.Contains(names, d.Node) {
				names = append(names, d.Node)
			}
		}
		return len(names) == 3
	}, func() any { return names })
	if names[0] != "server" || names[1] != "twin" || len(names[2]) != len("twin~123456") {
		t.Errorf("the names are %q", names)
	}
	f.server.log.await(t, "two programs deliver")
}

package app

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/sqlite"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// A renamed machine keeps its past and its documents, whichever version wrote them, and the newest of each document.
func TestAdopt(t *testing.T) {
	var st store.Store
	device := func(node string) store.Device { return store.Device{Node: node, UUID: "GPU-of-" + node} }
	document := func(node, about string, minute int, text string) {
		t.Helper()
		if about != "" {
			about = fmt.Sprintf(`"node":%q,`, about)
		}
		text = fmt.Sprintf(`{"version":2,%s"written":"2026-01-02T03:%02d:00Z","state":%q}`, about, minute, text)
		if err := st.Write(t.Context(), &store.Batch{Documents: map[string][]byte{node + "/alerts.json": []byte(text)}}); err != nil {
			t.Fatal(err)
		}
	}
	nodes := func() (all []string) {
		t.Helper()
		devices, err := st.Devices(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range devices {
			all = append(all, devices[i].Node+" has "+devices[i].UUID)
		}
		return all
	}
	for _, tt := range []struct {
		name    string
		before  func()
		records bool
		was     string
		devices []string
		keeps   string
	}{
		{"nothing is there", func() {}, false, "", []string{"agent has GPU-of-agent", "alpha has GPU-of-alpha"}, ""},
		{"an earlier version", func() { document("beta", "", 1, "mine") }, false, "", []string{"agent has GPU-of-agent", "alpha has GPU-of-alpha"}, "mine"},
		{
			"an earlier version, and another name at once", func() { document("alpha", "", 1, "mine") }, false, "alpha",
			[]string{"agent has GPU-of-agent", "beta has GPU-of-alpha"}, "mine",
		},
		{
			"an earlier version after this one", func() { document("id", "beta", 1, "of before"); document("beta", "", 2, "newer") }, false, "",
			[]string{"agent has GPU-of-agent", "alpha has GPU-of-alpha"}, "newer",
		},
		{
			"an earlier version before this one", func() { document("id", "beta", 2, "newer"); document("beta", "", 1, "of before") }, false, "",
			[]string{"agent has GPU-of-agent", "alpha has GPU-of-alpha"}, "newer",
		},
		{
			"a database that began anew", func() { document("id", "alpha", 1, "mine") }, false, "alpha",
			[]string{"agent has GPU-of-agent", "beta has GPU-of-alpha"}, "mine",
		},
		{
			"the name is that of a machine which delivers", func() {
				names := []byte(`{"names":{"beta":{"installation":"another"}}}`)
				document("id", "alpha", 1, "mine")
				if err := st.Write(t.Context(), &store.Batch{Devices: []store.Device{device("beta")}, Documents: map[string][]byte{store.FleetNames: names}}); err != nil {
					t.Fatal(err)
				}
			}, true, "alpha", []string{"agent has GPU-of-agent", "beta has GPU-of-alpha", "beta~ae448a has GPU-of-beta"}, "mine",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var err error
			st, err = sqlite.Open(t.Context(), sqlite.Options{File: filepath.Join(t.TempDir(), "past.db"), Log: slog.New(slog.DiscardHandler), Now: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			if err := st.Write(t.Context(), &store.Batch{Devices: []store.Device{device("alpha"), device("agent")}}); err != nil {
				t.Fatal(err)
			}
			tt.before()
			a := Adopter{Store: st, Installation: "id", Program: "beta", Node: "beta", Records: tt.records}
			was, err := a.Adopt(t.Context())
			if got := nodes(); err != nil || was != tt.was || !slices.Equal(got, tt.devices) {
				t.Errorf("was %q, want %q; %q, want %q; %v", was, tt.was, got, tt.devices, err)
			}
			var kept struct{ Text, Other []byte }
			kept.Text, err = st.Document(t.Context(), "id/alerts.json")
			for _, name := range []string{"alpha", "beta"} {
				text, failed := st.Document(t.Context(), name+"/alerts.json")
				kept.Other, err = append(kept.Other, text...), errors.Join(err, failed)
			}
			_, about := state.Written(kept.Text)
			if err != nil || len(kept.Other) > 0 || tt.keeps != "" && (about == "" || !bytes.Contains(kept.Text, []byte(strconv.Quote(tt.keeps)))) {
				t.Errorf("kept: %s, and %s; %v", kept.Text, kept.Other, err)
			}
			// It is noted: the next name is told by the database alone.
			a.Program, a.Node = "gamma", "gamma"
			if was, err := a.Adopt(t.Context()); was != "beta" || err != nil {
				t.Errorf("then it was %q, %v", was, err)
			}
		})
	}
}

package history

import (
	"slices"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// What was simulated is nobody's, and shown whole; what may not be shown is in no session and in no snapshot.
func TestWhatMayNotBeShown(t *testing.T) {
	t.Parallel()
	simulated := store.Key{Node: "a", UUID: "SIM-1"}
	m := &memory{devices: []store.Device{{Node: "a", UUID: gpu3.UUID, Kind: gpu.Live}, {Node: "a", UUID: "SIM-1", Kind: gpu.Simulated}}}
	for i, session := range []store.Session{
		{SessionKey: store.SessionKey{Key: gpu3}, User: "ann"}, {SessionKey: store.SessionKey{Key: gpu3}, User: "ben"},
		{SessionKey: store.SessionKey{Key: simulated}, User: "ben"}, {SessionKey: store.SessionKey{Key: store.Key{Node: "b", UUID: "new"}}, User: "ben"},
	} {
		session.PID, session.From, session.To, session.Program, session.Command = i, midnight, midnight, "train.py", "train.py --secret"
		m.sessions = append(m.sessions, session)
	}
	permits := Permits(func(user string) (bool, bool) { return user == "ann", user == "ann" })
	var got []string
	for s, err := range permits.Store(m).Sessions(t.Context(), store.Query{Keys: []store.Key{gpu3, simulated, {Node: "b", UUID: "new"}}}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, s.Program+"|"+s.Command)
	}
	whole := "train.py|train.py --secret"
	if want := []string{whole, "|", whole, "|"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}

	snapshot := func(source string) *gpu.Snapshot {
		facts := gpu.ProcessFacts{User: gpu.Of("ben"), Program: gpu.Of("train.py"), Command: gpu.Of("train.py --secret")}
		s := &gpu.Snapshot{Source: source, Devices: make([]gpu.Device, 1), Host: &gpu.Host{}}
		s.Devices[0].Source = source
		s.Devices[0].Processes = gpu.Of([]gpu.Process{{Facts: facts}})
		s.Host.Busiest = gpu.Of([]gpu.HostProcess{{Facts: facts}})
		return s
	}
	for source, want := range map[string]gpu.Quality{"nvml": gpu.NotPermitted, gpu.SourceSimulated: gpu.Good} {
		s := snapshot(source)
		permits.withhold(s)
		facts, busiest := s.Devices[0].Processes.Or(nil)[0].Facts, s.Host.Busiest.Or(nil)[0].Facts
		for _, r := range []gpu.Reading[string]{facts.Program, facts.Command, busiest.Program, busiest.Command} {
			if r.Quality() != want {
				t.Errorf("of %s: %v", source, r)
			}
		}
	}
	permits.withhold(&gpu.Snapshot{Source: "nvml"})
}

//go:build !race

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/past/store/postgres/pgtest"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

func postgresServer(t *testing.T) *pgtest.Server {
	t.Helper()
	server, err := pgtest.Start(t.Context())
	if errors.Is(err, pgtest.ErrMissing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// part waits until a part of the health is in a state with an error that contains all these texts. It returns the part.
func (p *program) part(name, state string, says ...string) (part contract.Part) {
	p.t.Helper()
	testkit.Until(p.t, fmt.Sprintf("%s is %s, and says %q", name, state, says), func() bool {
		var h contract.MonitorHealth
		p.get("/api/health", &h)
		part = h.Parts[name]
		return part.State == state && !slices.ContainsFunc(says, func(text string) bool {
			return part.LastError == nil || !strings.Contains(*part.LastError, text)
		})
	}, func() string {
		text, err := json.Marshal(part)
		return fmt.Sprintf("%s %v", text, err)
	})
	return part
}

// Two programs keep their past in one PostgreSQL, which is away for a while: both go on, and nothing is lost.
func TestThePastOnAServer(t *testing.T) {
	t.Parallel()
	serverAway(t, 0)
}

// serverAway stops the server until the program says so, and for a while longer.
func serverAway(t *testing.T, more time.Duration) {
	t.Helper()
	server := postgresServer(t)
	server.Exec(t, "postgres", "CREATE SCHEMA past AUTHORIZATION "+pgtest.Guarded)
	address := server.URL("postgres", pgtest.Guarded) + "&search_path=past"
	begin := func(node, profile string) *program {
		return start(t, []string{"PGPASSWORD=" + pgtest.Password},
			"--source=simulate:"+profile, fast, "--node="+node, "--history="+address)
	}
	one, other := begin("one", "rtx-4090"), begin("other", "rtx-4090")
	both := []*program{one, other}
	for _, p := range both {
		p.remembered()
	}

	if err := server.Halt(t.Context()); err != nil {
		t.Fatal(err)
	}
	one.part("history", "failed", "nothing lost so far")
	one.goesOn()
	if status := one.get("/api/gpu/sessions", nil); status != http.StatusServiceUnavailable {
		t.Errorf("what is asked of a server that is away: %d", status)
	}
	time.Sleep(more) // while it is away
	if err := server.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range both {
		p.remembered()
		p.whole(0)
		var history contract.History
		if p.get("/api/gpu/history?from=-30m&step=1s&metric=power_draw", &history); len(history.GPUs) != 2 {
			t.Errorf("GPUs of two machines: %d", len(history.GPUs))
		}
	}
	var list contract.PastSessions
	one.get("/api/gpu/sessions?from=-30m", &list)
	if len(list.Sessions) == 0 {
		t.Error("no sessions")
	}
	for _, args := range [][]string{
		{"sessions", "30m"}, {"past", "30m"}, {"history", "size"}, {"history", "export", "readings", "30m", "--metric=power_draw"},
		{"history", "check"}, {"history", "compact"},
	} {
		r := command(t, []string{"PGPASSWORD=" + pgtest.Password}, append(unserved(args...), "--history="+address)...)
		if r.code != exitOK || len(r.stdout) < 30 || strings.Contains(r.stdout+r.stderr, pgtest.Guarded) || args[0] != "history" && !strings.Contains(r.stderr, "the answer is from the database named by --history") {
			t.Errorf("%v from the database: %+v", args, r)
		}
	}
}

// A second gpuwhy with the same name writes nothing, and says what to do. It continues as soon as the first is killed.
func TestTwoOfOneNameOnAServer(t *testing.T) {
	t.Parallel()
	address := "--history=" + postgresServer(t).URL("postgres", "postgres")
	first := start(t, nil, "--source=simulate:rtx-4090", fast, "--node=one", address)
	first.remembered()
	second := start(t, nil, "--source=simulate:rtx-4090", fast, "--node=one", address)
	second.part("history", "failed", `another gpuwhy writes as "one"`, "nothing lost so far")
	first.part("history", "ok")
	first.kill()
	second.part("history", "ok")
}

// Commands that read create nothing if no past is kept.
func TestReadingWhereNoPastIs(t *testing.T) {
	t.Parallel()
	server := postgresServer(t)
	server.Exec(t, "postgres", "CREATE SCHEMA other")
	for _, args := range [][]string{{"past", "30m"}, {"sessions", "30m"}, {"history", "size"}, {"history", "check"}, {"history", "compact"}} {
		r := command(t, nil, append(unserved(args...), "--history="+server.URL("postgres", "postgres")+"&search_path=other")...)
		if r.code != exitError || !strings.Contains(r.stderr, `in the schema "other"`) {
			t.Errorf("%v: %+v", args, r)
		}
	}
	server.Exec(t, "postgres", "DROP SCHEMA other") // which is refused while something is in it
}

// Errors in --history are reported before anything starts, and never contain a password.
func TestBadHistory(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"paper":                         "--history: must be sqlite, off, or the address of a PostgreSQL",
		"postgres://me:s3cret@:none:/x": "the address of the PostgreSQL server is invalid",
		"postgres://me:s3cret@127.0.0.1/x?sslmode=so": "the address of the PostgreSQL server",
	} {
		r := command(t, nil, "serve", "--source=simulate:rtx-4090", "--history="+value)
		if r.code != exitUsage || !strings.Contains(r.stderr, want) || strings.Contains(r.stderr, "s3cret") {
			t.Errorf("%s: %+v", value, r)
		}
	}
}

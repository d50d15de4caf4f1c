package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/past/store/postgres/pgtest"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// shared is the server of all tests; nil where there is no PostgreSQL.
var shared *pgtest.Server

func TestMain(m *testing.M) {
	var err error
	shared, err = pgtest.Start(context.Background())
	if err != nil && (!errors.Is(err, pgtest.ErrMissing) || os.Getenv("CI") != "") {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := testkit.RunTests(m)
	if shared != nil {
		if err := shared.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// A place is where a ledger is. Each ledger that it opens has the same content.
type ledgerPlace struct {
	name string
	// several says that several ledgers may be open at a time.
	several bool
	open    func(t testing.TB) Ledger
}

// places are a new place of each kind.
func places(t testing.TB) []ledgerPlace {
	t.Helper()
	file := filepath.Join(t.TempDir(), "access.db")
	aside := filepath.Join(t.TempDir(), "access.db")
	all := []ledgerPlace{
		{"memory", false, func(t testing.TB) Ledger { return opened(t)(InMemory(t.Context())) }},
		{"file", true, func(t testing.TB) Ledger { return opened(t)(OpenFile(t.Context(), file)) }},
		{"apart", false, func(t testing.TB) Ledger {
			there := &Opened{Open: func(ctx context.Context) (Ledger, error) { return OpenFile(ctx, aside) }}
			return opened(t)(&Later{Open: func(context.Context) (Ledger, error) { return Apart(there), nil }, Deadline: testkit.Patience}, nil)
		}},
	}
	if shared != nil {
		address := shared.Schema()
		all = append(all, ledgerPlace{"server", true, func(t testing.TB) Ledger { return opened(t)(OpenServer(t.Context(), address)) }})
	}
	return all
}

// opened takes what opening a ledger returns, and closes it when the test ends.
func opened(t testing.TB) func(Ledger, error) Ledger {
	return func(l Ledger, err error) Ledger {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		return l
	}
}

// everywhere runs a test with a ledger of each kind.
func everywhere(t *testing.T, test func(t *testing.T, p ledgerPlace, l Ledger)) {
	t.Helper()
	for _, p := range places(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			test(t, p, p.open(t))
		})
	}
	if shared == nil {
		t.Run("server", func(t *testing.T) { t.Skip(pgtest.ErrMissing) })
	}
}

// inside is the database of a ledger; nil if it is elsewhere.
func inside(l Ledger) *database {
	d, _ := l.(*database)
	return d
}

package postgres_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/postgres"
	"github.com/gpuwhy/gpuwhy/internal/past/store/postgres/pgtest"
	"github.com/gpuwhy/gpuwhy/internal/past/store/storetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// shared is the server of all tests that don't stop it; nil where there is no PostgreSQL.
var shared *pgtest.Server

func TestMain(m *testing.M) {
	// A random test makes a schema of its own, which takes a server long. More are asked for by -rapid.checks.
	if err := flag.Set("rapid.checks", "10"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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

func server(t testing.TB) *pgtest.Server {
	t.Helper()
	if shared == nil {
		t.Skip(pgtest.ErrMissing)
	}
	return shared
}

// open opens a store that gives the server minutes, if it does not say how long.
func open(t testing.TB, c postgres.Config) *postgres.Store {
	t.Helper()
	c.Patience = cmp.Or(c.Patience, testkit.Patience)
	s, err := postgres.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestPromises(t *testing.T) {
	srv := server(t)
	storetest.Run(t, func(t *testing.T) store.Store {
		s, err := postgres.Open(postgres.Config{URL: srv.Schema(), Owner: "here", Patience: testkit.Patience})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

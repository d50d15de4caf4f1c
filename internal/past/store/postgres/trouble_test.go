package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/postgres"
	"github.com/gpuwhy/gpuwhy/internal/past/store/postgres/pgtest"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

var begin = time.Date(2026, 3, 28, 20, 15, 0, 0, time.UTC)

// rowsOf is a batch of one row of each GPU of a node.
func rowsOf(node string, gpus int, at time.Time) *store.Batch {
	b := new(store.Batch)
	for i := range gpus {
		k := store.Key{Node: node, UUID: fmt.Sprintf("GPU-%d", i)}
		values := make([]store.Value, len(store.DeviceColumns))
		for n := range values {
			v := store.DeviceColumns[n].Value(int64(i + n))
			values[n] = store.Value{Least: v, Mean: v, Most: v, Count: 1}
		}
		b.Rows = append(b.Rows, store.Row{Key: k, Time: at, Readings: 1, State: gpu.StateOK, Values: values})
	}
	return b
}

func count(t testing.TB, s *postgres.Store, q store.Query) (n int) {
	t.Helper()
	for _, err := range s.Rows(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// own is a server that a test may stop.
func own(t *testing.T) *pgtest.Server {
	t.Helper()
	server(t)
	s, err := pgtest.Start(t.Context())
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

// advised fails unless an error is what is wanted, and says to people what to do.
func advised(t *testing.T, err, want error, says string) {
	t.Helper()
	advice, ok := errors.AsType[*gpu.Advice](err)
	if !ok || !errors.Is(err, want) || advice.Try == "" || !strings.Contains(advice.Text(), says) {
		t.Errorf("the error is %v; want %q in an advice that says %q", err, want, says)
	}
}

func TestSeveralWriteIntoOneDatabase(t *testing.T) {
	address := server(t).Schema()
	const writers, batches, gpus = 5, 12, 4
	stores := make([]*postgres.Store, writers)
	var running sync.WaitGroup
	for w := range stores {
		s := open(t, postgres.Config{URL: address, Owner: fmt.Sprint("owner ", w)})
		stores[w] = s
		running.Go(func() { // all find no table, and all write the same beside their own
			for i := range batches {
				at := begin.Add(time.Duration(i) * 12 * time.Hour)
				b := rowsOf("shared", gpus, at)
				b.Rows = append(b.Rows, rowsOf(fmt.Sprint("node ", w), gpus, at).Rows...)
				b.Devices = []store.Device{{Node: "shared", UUID: "GPU-0", Name: fmt.Sprint("said by ", w)}}
				record := fmt.Appendf(nil, "a frame that is long enough for a dictionary, of writer %d and batch %d", w, i)
				b.Frames = []store.Frame{{Node: "shared", Time: at, Snapshot: record}}
				b.Documents = map[string][]byte{"floors": fmt.Append(nil, w)}
				b.Unsettled = []store.Bucket{{Key: store.Key{Node: fmt.Sprint("node ", w), UUID: "GPU-0"}, Tier: store.Minute, Time: at}}
				if err := s.Write(t.Context(), b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	for w, s := range stores {
		if n := count(t, s, store.Query{}); n != (writers+1)*batches*gpus {
			t.Errorf("%d rows, want %d", n, (writers+1)*batches*gpus)
		}
		if devices, err := s.Devices(t.Context()); err != nil || len(devices) != (writers+1)*gpus+1 {
			t.Errorf("%d devices, %v; want %d", len(devices), err, (writers+1)*gpus+1)
		}
		frames := 0
		for f, err := range s.Frames(t.Context(), store.Query{}) {
			if err != nil || !strings.HasSuffix(string(f.Snapshot), fmt.Sprint("batch ", frames)) {
				t.Errorf("frame %d is %q, %v", frames, f.Snapshot, err)
			}
			frames++
		}
		if frames != batches {
			t.Errorf("%d frames, want %d", frames, batches)
		}
		if text, err := s.Document(t.Context(), "floors"); err != nil || string(text) != fmt.Sprint(w) {
			t.Errorf("the document of %d is %q, %v", w, text, err)
		}
		unsettled, err := s.Unsettled(t.Context(), store.Minute, time.Time{})
		if err != nil || len(unsettled) != writers*batches {
			t.Errorf("%d finds %d spans that are not settled, %v: want those of all", w, len(unsettled), err)
		}
	}
	// Who finds one that nobody settles may do so.
	left := store.Bucket{Key: store.Key{Node: "node 1", UUID: "GPU-0"}, Tier: store.Minute, Time: begin}
	if err := stores[0].Write(t.Context(), &store.Batch{Settled: []store.Bucket{left}}); err != nil {
		t.Fatal(err)
	}
	if unsettled, err := stores[1].Unsettled(t.Context(), store.Minute, begin.Add(time.Second)); err != nil || len(unsettled) != writers-1 {
		t.Errorf("%v are not settled, %v", unsettled, err)
	}
}

// The server crashes and starts again while batches are written. What was written is there, and nothing twice.
func TestTheServerRestartsAmidWriting(t *testing.T) {
	srv := own(t)
	s := open(t, postgres.Config{URL: srv.URL("postgres", "postgres")})
	const batches, gpus, restarts = 200, 8, 3
	written, lost := make(chan struct{}), 0
	go func() {
		defer close(written)
		for i := 0; i < batches; {
			switch err := s.Write(t.Context(), rowsOf("n", gpus, begin.Add(time.Duration(i)*time.Second))); {
			case err == nil:
				i++
				written <- struct{}{}
			case errors.Is(err, store.ErrGone):
				lost++
			default:
				t.Error(err)
				return
			}
		}
	}()
	for n := 0; ; n++ {
		if _, more := <-written; !more {
			break
		}
		if n%(batches/(restarts+1)) == 10 {
			ended := make(chan error)
			go func() { ended <- errors.Join(srv.Halt(t.Context()), srv.Run(t.Context())) }()
			for stopping := true; stopping; {
				select {
				case err := <-ended:
					if stopping = false; err != nil {
						t.Fatal(err)
					}
				case <-written: // also while it stops
					n++
				}
			}
		}
	}
	if n := count(t, s, store.Query{}); n != batches*gpus {
		t.Errorf("%d rows, want %d", n, batches*gpus)
	}
	t.Logf("%d writes found no server", lost)
}

func TestTheServerIsAwayForAWhile(t *testing.T) {
	srv := own(t)
	s := open(t, postgres.Config{URL: srv.URL("postgres", "postgres")})
	write := func(i int) error {
		return s.Write(t.Context(), rowsOf("n", 8, begin.Add(time.Duration(i)*time.Second)))
	}
	if err := write(0); err != nil {
		t.Fatal(err)
	}
	if err := srv.Halt(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		advised(t, write(1), store.ErrGone, "continues by itself")
	}
	for _, err := range s.Rows(t.Context(), store.Query{}) {
		advised(t, err, store.ErrGone, "continues by itself")
	}
	_, err := s.Devices(t.Context())
	advised(t, err, store.ErrGone, "continues by itself")
	other := open(t, postgres.Config{URL: srv.URL("postgres", "postgres")}) // one that has never reached it
	_, err = other.Size(t.Context())
	advised(t, err, store.ErrGone, "check that it runs")
	if err := srv.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := write(i); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, other, store.Query{}); n != 3*8 {
		t.Errorf("%d rows, want %d", n, 3*8)
	}
}

// A gate is before a server. While somebody holds its lock, the server seems to take what is sent, and no answer comes.
type gate struct{ sync.RWMutex }

// before starts a gate, and returns the server's address by way of it.
func (g *gate) before(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = ln.Close(); all.Wait() })
	server := u.Host
	u.Host = ln.Addr().String()
	all.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return // the test has ended
			}
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server)
			if err != nil { // the client says so, if the test has not ended
				_ = client.Close()
				continue
			}
			all.Go(func() { _, _ = io.Copy(conn, client); _ = conn.Close() })
			all.Go(func() {
				defer func() { _ = client.Close() }()
				answer := make([]byte, 4096)
				for {
					n, err := conn.Read(answer)
					if err != nil {
						return
					}
					g.RLock()
					_, err = client.Write(answer[:n])
					if g.RUnlock(); err != nil {
						return
					}
				}
			})
		}
	})
	return u.String()
}

// A server that takes what is sent and never answers.
func TestTheServerHangs(t *testing.T) {
	var answers gate
	address := answers.before(t, server(t).Schema())
	s := open(t, postgres.Config{URL: address})
	b := rowsOf("n", 8, begin)
	if err := s.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	hasty := open(t, postgres.Config{URL: address, Patience: 50 * time.Millisecond})
	if _, err := hasty.Devices(t.Context()); err != nil {
		t.Fatal(err)
	}
	answers.Lock()
	err := hasty.Write(t.Context(), rowsOf("n", 8, begin.Add(time.Second)))
	answers.Unlock()
	advised(t, err, store.ErrGone, "is not answering")
	if err := s.Write(t.Context(), rowsOf("n", 8, begin.Add(time.Second))); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, store.Query{}); n != 2*8 {
		t.Errorf("%d rows, want %d", n, 2*8)
	}
}

func TestTheTablesAreTakenAway(t *testing.T) {
	srv := server(t)
	db := srv.Database(t)
	s := open(t, postgres.Config{URL: srv.URL(db, "postgres")})
	b := rowsOf("n", 3, begin)
	b.Frames = []store.Frame{{Node: "n", Time: begin, Snapshot: []byte(strings.Repeat("frame ", 50))}}
	for range 3 {
		if err := s.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if n := count(t, s, store.Query{}); n != 3 {
			t.Errorf("%d rows, want 3", n)
		}
		srv.Exec(t, db, "DROP SCHEMA gpuwhy CASCADE")
	}
}

func TestANewerCatalogAddsItsColumns(t *testing.T) {
	srv := server(t)
	db := srv.Database(t)
	old := open(t, postgres.Config{URL: srv.URL(db, "postgres")})
	if err := old.Write(t.Context(), rowsOf("n", 1, begin)); err != nil {
		t.Fatal(err)
	}
	// As if this gpuwhy were the first with these quantities, and another one had written some that it does not know.
	srv.Exec(t, db, "ALTER TABLE gpuwhy.device_raw DROP COLUMN power_draw, DROP COLUMN thermal_gpu, ADD COLUMN unheard_of bigint")
	s := open(t, postgres.Config{URL: srv.URL(db, "postgres")})
	if err := s.Write(t.Context(), rowsOf("n", 1, begin.Add(time.Second))); err != nil {
		t.Fatal(err)
	}
	watts, present := store.DeviceColumns.Find("power_draw"), []int{}
	for r, err := range s.Rows(t.Context(), store.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		present = append(present, r.Values[watts].Count)
	}
	if fmt.Sprint(present) != "[0 1]" {
		t.Errorf("watts are present in %v, want only in the second row", present)
	}
}

// Fields that an earlier version did not keep get their columns, in which what it wrote has no value.
func TestALaterVersionAddsItsFields(t *testing.T) {
	srv := server(t)
	db := srv.Database(t)
	whole := store.Session{
		SessionKey: store.SessionKey{Key: store.Key{Node: "n", UUID: "u"}, PID: 7, Started: begin, Begin: begin}, User: "ann", Image: "image", From: begin, To: begin,
		Outcome: store.Ended, Seen: time.Second, PeakMemory: gpu.Of(gpu.Bytes(5)), SMSeconds: 0.5, Accounted: true,
	}
	b := &store.Batch{Devices: []store.Device{{Node: "n", UUID: "u", Name: "H100", Vendor: "NVIDIA"}}, Sessions: []store.Session{whole}}
	if err := open(t, postgres.Config{URL: srv.URL(db, "postgres")}).Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	srv.Exec(t, db, `ALTER TABLE gpuwhy.sessions DROP COLUMN image, DROP COLUMN seen, DROP COLUMN peak_memory, DROP COLUMN peak_quality,
		DROP COLUMN sm_seconds, DROP COLUMN accounted`)
	srv.Exec(t, db, "ALTER TABLE gpuwhy.devices DROP COLUMN vendor")
	s := open(t, postgres.Config{URL: srv.URL(db, "postgres")})
	less := whole
	less.Image, less.Seen, less.PeakMemory, less.SMSeconds, less.Accounted = "", 0, gpu.Reading[gpu.Bytes]{}, 0, false
	for _, want := range []store.Session{less, whole} {
		for got, err := range s.Sessions(t.Context(), store.Query{}) {
			if err != nil || got != want {
				t.Errorf("%v, %+v, want %+v", err, got, want)
			}
		}
		devices, err := s.Devices(t.Context())
		if err != nil || len(devices) != 1 || devices[0].Name != "H100" || (devices[0].Vendor == "") != (want == less) {
			t.Errorf("%v, %+v", err, devices)
		}
		if err := s.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
}

func TestANewerGpuwhyWroteIt(t *testing.T) {
	srv := server(t)
	db := srv.Database(t)
	if _, err := open(t, postgres.Config{URL: srv.URL(db, "postgres")}).Devices(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv.Exec(t, db, "INSERT INTO gpuwhy.goose_db_version (version_id, is_applied) VALUES (999, true)")
	s := open(t, postgres.Config{URL: srv.URL(db, "postgres")})
	advised(t, s.Write(t.Context(), rowsOf("n", 1, begin)), store.ErrNewer, "update this gpuwhy")
	_, err := s.Devices(t.Context())
	advised(t, err, store.ErrNewer, "update this gpuwhy")
}

// Two that write as the same owner would end each other's sessions: the second is refused until the first has ended.
func TestTwoWithOneName(t *testing.T) {
	srv := server(t)
	database := srv.Database(t)
	address := srv.URL(database, "postgres")
	write := func(s *postgres.Store, minute int) error {
		return s.Write(t.Context(), rowsOf("a", 1, begin.Add(time.Duration(minute)*time.Minute)))
	}
	first, second := open(t, postgres.Config{URL: address, Owner: "a"}), open(t, postgres.Config{URL: address, Owner: "a"})
	if err := write(first, 0); err != nil {
		t.Fatal(err)
	}
	advised(t, write(second, 1), store.ErrLocked, `another gpuwhy writes as "a"`)
	advised(t, write(second, 1), store.ErrLocked, "--node")
	if n := count(t, second, store.Query{}); n != 1 {
		t.Errorf("the second reads %d rows", n)
	}
	for _, c := range []postgres.Config{{URL: address, Owner: "b"}, {URL: address + "&search_path=other", Owner: "a"}} {
		if err := write(open(t, c), 2); err != nil {
			t.Errorf("another one: %v", err)
		}
	}
	// The server ends all connections, as when it is restarted: who is first has it.
	srv.Exec(t, database, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()")
	// It may take the server a moment to give a lock back.
	testkit.Until(t, "the first writes again", func() bool { return write(first, 3) == nil })
	advised(t, write(second, 4), store.ErrLocked, "--node")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the second writes when the first has ended", func() bool { return write(second, 4) == nil })
	advised(t, write(open(t, postgres.Config{URL: address, Owner: "a"}), 5), store.ErrLocked, "--node")
}

// A copy of a machine, by another name, would replace the machine's documents: it is refused, and told what to do.
func TestACopyOfAnInstallation(t *testing.T) {
	srv := server(t)
	address := srv.URL(srv.Database(t), "postgres")
	first, second := open(t, postgres.Config{URL: address, Owner: "it", Name: "a"}), open(t, postgres.Config{URL: address, Owner: "it", Name: "b"})
	if err := first.Write(t.Context(), rowsOf("a", 1, begin)); err != nil {
		t.Fatal(err)
	}
	advised(t, second.Write(t.Context(), rowsOf("b", 1, begin)), store.ErrLocked, "installation.json")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "it writes when the first has ended", func() bool { return second.Write(t.Context(), rowsOf("b", 1, begin)) == nil })
}

// What an earlier version kept under a machine's name is the installation's from then on: another machine of that name does not find it.
func TestDocumentsOfAnEarlierVersion(t *testing.T) {
	srv := server(t)
	address := srv.URL(srv.Database(t), "postgres")
	run := func(owner, keeps string) (found string) {
		t.Helper()
		s := open(t, postgres.Config{URL: address, Owner: owner, Name: "a"})
		text, err := s.Document(t.Context(), "a/alerts.json")
		if err == nil && keeps != "" {
			err = s.Write(t.Context(), &store.Batch{Documents: map[string][]byte{keeps: []byte("kept"), "a/alerts.json": nil}})
		}
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	s := open(t, postgres.Config{URL: address, Owner: "a"})
	if err := errors.Join(s.Write(t.Context(), &store.Batch{Documents: map[string][]byte{"a/alerts.json": []byte("old")}}), s.Close()); err != nil {
		t.Fatal(err)
	}
	if found := run("first", "first/alerts.json"); found != "old" {
		t.Errorf("the machine finds %q", found)
	}
	if found := run("second", ""); found != "" {
		t.Errorf("another machine finds %q", found)
	}
}

// Who only reads changes nothing: it makes no tables, brings none up to date, and says what there is.
func TestView(t *testing.T) {
	srv := server(t)
	database := srv.Database(t)
	address := srv.URL(database, "postgres")
	tables := func() (n int) {
		t.Helper()
		db, err := pgx.Connect(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close(context.Background())
		err = db.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM pg_namespace) + (SELECT count(*) FROM pg_class) + (SELECT count(*) FROM pg_attribute WHERE NOT attisdropped)").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	view := func() *postgres.Store {
		t.Helper()
		s, err := postgres.View(postgres.Config{URL: address})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	says := func(err error, want string) {
		t.Helper()
		if advice, ok := errors.AsType[*gpu.Advice](err); !ok || !strings.Contains(advice.Text(), want) {
			t.Errorf("the error is %v; want advice that says %q", err, want)
		}
	}
	nothing := tables()
	s := view()
	_, err := s.Devices(t.Context())
	says(err, "there is no history on")
	_, err = s.Size(t.Context())
	says(err, `in the schema "gpuwhy"`)
	says(s.Check(t.Context()), "search_path")
	says(s.Compact(t.Context()), "there is no history on")
	if n := tables(); n != nothing {
		t.Errorf("%d tables and columns where there were %d", n, nothing)
	}

	if err := open(t, postgres.Config{URL: address}).Write(t.Context(), rowsOf("a", 2, begin)); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, store.Query{}); n != 2 {
		t.Errorf("%d rows", n)
	}
	if err := s.Compact(t.Context()); err != nil {
		t.Error(err)
	}
	advised(t, s.Write(t.Context(), rowsOf("a", 3, begin)), store.ErrReadOnly, "open for reading only")
	_, err = s.Forget(t.Context(), store.Retention{store.Raw: time.Hour}, time.Now())
	advised(t, err, store.ErrReadOnly, "open for reading only")
	if n := count(t, s, store.Query{}); n != 2 {
		t.Errorf("%d rows", n)
	}

	srv.Exec(t, database, "ALTER TABLE gpuwhy.device_raw DROP COLUMN power_draw")
	had := tables()
	_, err = view().Devices(t.Context())
	says(err, "an older gpuwhy created the tables")
	if n := tables(); n != had {
		t.Errorf("%d tables and columns where there were %d", n, had)
	}
}

func TestADatabaseThatCanOnlyBeRead(t *testing.T) {
	srv := server(t)
	db := srv.Database(t)
	if err := open(t, postgres.Config{URL: srv.URL(db, "postgres")}).Write(t.Context(), rowsOf("n", 3, begin)); err != nil {
		t.Fatal(err)
	}
	srv.Exec(t, "postgres", "ALTER DATABASE "+db+" SET default_transaction_read_only = on")
	s := open(t, postgres.Config{URL: srv.URL(db, "postgres")})
	advised(t, s.Write(t.Context(), rowsOf("n", 3, begin.Add(time.Second))), store.ErrReadOnly, "standby")
	if n := count(t, s, store.Query{}); n != 3 {
		t.Errorf("%d rows, want 3", n)
	}
}

func TestWhoMayNotAndWhatIsNotThere(t *testing.T) {
	srv := server(t)
	db := srv.Database(t)
	srv.Exec(t, "postgres", "CREATE DATABASE "+db+"latin TEMPLATE template0 ENCODING 'LATIN1'")
	for _, tt := range []struct {
		database, password string
		want               error
		says               string
	}{
		{db, pgtest.Password, store.ErrReadOnly, "grant it"},
		{db, "wr0ng", store.ErrGone, "does not accept the password"},
		{db, "", store.ErrGone, "PGPASSWORD"},
		{"nowhere", pgtest.Password, store.ErrGone, "createdb"},
		{db + "latin", pgtest.Password, store.ErrReadOnly, "UTF8"},
	} {
		address := srv.URL(tt.database, pgtest.Guarded)
		if tt.password != "" {
			address = strings.Replace(address, pgtest.Guarded+"@", pgtest.Guarded+":"+tt.password+"@", 1)
		}
		s := open(t, postgres.Config{URL: address})
		err := s.Write(t.Context(), rowsOf("n", 1, begin))
		advised(t, err, tt.want, tt.says)
		if tt.password != "" && strings.Contains(err.Error(), tt.password) {
			t.Errorf("the password is in %q", err)
		}
	}
}

func TestThePasswordComesFromElsewhere(t *testing.T) {
	srv := server(t)
	db := srv.Database(t)
	srv.Exec(t, "postgres", "ALTER DATABASE "+db+" OWNER TO "+pgtest.Guarded)
	file := filepath.Join(t.TempDir(), "pass")
	if err := os.WriteFile(file, []byte("*:*:*:"+pgtest.Guarded+":"+pgtest.Password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	works := func(parameters string) {
		t.Helper()
		s := open(t, postgres.Config{URL: srv.URL(db, pgtest.Guarded) + parameters})
		if err := s.Write(t.Context(), rowsOf("n", 1, begin)); err != nil {
			t.Error(err)
		}
	}
	works("&passfile=" + file)
	t.Run("PGPASSWORD", func(t *testing.T) {
		t.Setenv("PGPASSWORD", pgtest.Password)
		works("")
	})
	t.Run("PGPASSFILE", func(t *testing.T) {
		t.Setenv("PGPASSFILE", file)
		works("")
	})
}

func TestABadAddressIsNotRepeated(t *testing.T) {
	for _, address := range []string{
		"", "sqlite", "host=db password=s3cret",
		"postgres://u:s3cret@h:port/db", "postgres://u:s3cret@[::1/db", "postgres://u:s3c%ret@h/db",
		"postgres://u:s3cret@h/db?sslmode=maybe", "postgres://u:s3cret@h/db?pool_max_conns=many", "postgres://u:s3 cret\n@h/db",
		"postgres://h/db?password=s3cret&connect_timeout=x", "postgresql://u:s3cret@h:99999/db",
	} {
		s, err := postgres.Open(postgres.Config{URL: address})
		if err == nil {
			t.Errorf("%q is taken", address)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		if _, ok := errors.AsType[*gpu.Advice](err); !ok || strings.Contains(fmt.Sprintf("%v %+v", err, err), "cret") {
			t.Errorf("of %q: %v", address, err)
		}
	}
}

func TestTheDiskIsFull(t *testing.T) {
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("only root may mount")
	}
	srv := own(t)
	dir, err := os.MkdirTemp("", "gpuwhy-full-") //nolint:usetesting // the user of the server reaches no folder of the test
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("gpuwhy-test", dir, "tmpfs", 0, "size=48m,mode=700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(syscall.Unmount(dir, syscall.MNT_DETACH), os.Remove(dir)); err != nil {
			t.Error(err)
		}
	})
	if out, err := exec.CommandContext(t.Context(), "chown", "postgres", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	srv.Exec(t, "postgres", "CREATE TABLESPACE small LOCATION '"+dir+"'")
	srv.Exec(t, "postgres", "CREATE DATABASE small TABLESPACE small")
	s := open(t, postgres.Config{URL: srv.URL("small", "postgres")})
	if err := s.Write(t.Context(), rowsOf("n", 8, begin)); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	batches := 1
	for err == nil {
		if err = s.Write(t.Context(), rowsOf("n", 500, begin.Add(time.Duration(batches)*time.Second))); err == nil {
			batches++
		}
	}
	advised(t, err, store.ErrFull, "--history-retention")
	if n := count(t, s, store.Query{}); n != 8+500*(batches-1) {
		t.Errorf("%d rows, want %d", n, 8+500*(batches-1))
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), rowsOf("n", 8, begin.Add(-time.Second))); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

func TestDamageIsFound(t *testing.T) {
	srv := own(t)
	s := open(t, postgres.Config{URL: srv.URL("postgres", "postgres")})
	b := rowsOf("n", 8, begin)
	b.Events = []store.Event{{ID: "e", Key: store.Key{Node: "n"}, Time: begin}}
	if err := s.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), srv.URL("postgres", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	var file string
	if err := c.QueryRow(t.Context(), "SELECT pg_relation_filepath('gpuwhy.events')").Scan(&file); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "CHECKPOINT"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Close(t.Context()), srv.Halt(t.Context())); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(srv.File(file), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("no page has such a header"), 0); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Close(), srv.Run(t.Context())); err != nil {
		t.Fatal(err)
	}
	advised(t, s.Check(t.Context()), store.ErrCorrupt, "backup")
	if n := count(t, s, store.Query{}); n != 8 { // what is not damaged is read
		t.Errorf("%d rows, want 8", n)
	}
}

func TestAKeyFrameThatIsMissing(t *testing.T) {
	srv := server(t)
	db := srv.Database(t)
	s := open(t, postgres.Config{URL: srv.URL(db, "postgres")})
	b := rowsOf("n", 1, begin)
	b.Frames = []store.Frame{{Node: "n", Time: begin, Snapshot: []byte(strings.Repeat("frame ", 50))}}
	if err := s.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	srv.Exec(t, db, "DELETE FROM gpuwhy.key_frames")
	for _, err := range s.Frames(t.Context(), store.Query{}) {
		advised(t, err, store.ErrCorrupt, "backup")
	}
	advised(t, s.Check(t.Context()), store.ErrCorrupt, "backup")
}

// A partition is there before its day, and is dropped whole after the retention.
func TestPartitions(t *testing.T) {
	srv := server(t)
	db := srv.Database(t)
	s := open(t, postgres.Config{URL: srv.URL(db, "postgres")})
	b := rowsOf("n", 2, begin)
	for _, r := range b.Rows {
		r.Tier = store.Minute
		b.Rows = append(b.Rows, r)
	}
	if err := s.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	partitions := func() (names []string) {
		t.Helper()
		c, err := pgx.Connect(t.Context(), srv.URL(db, "postgres"))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := c.Query(t.Context(), `SELECT relname::text FROM pg_class
			WHERE relnamespace = 'gpuwhy'::regnamespace AND relispartition AND relkind = 'r' ORDER BY 1`)
		if err != nil {
			t.Fatal(err)
		}
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		if err := errors.Join(err, c.Close(context.Background())); err != nil {
			t.Fatal(err)
		}
		return names
	}
	want := []string{"device_1m_20260301", "device_1m_20260401", "device_raw_20260328", "device_raw_20260329"}
	if got := partitions(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the partitions are %v, want %v", got, want)
	}
	kept := store.Retention{store.Raw: 48 * time.Hour, store.Minute: 30 * 24 * time.Hour}
	for more := true; more; {
		var err error
		if more, err = s.Forget(t.Context(), kept, time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)); err != nil {
			t.Fatal(err)
		}
	}
	if got := partitions(); fmt.Sprint(got) != fmt.Sprint(want[:2]) {
		t.Errorf("the partitions after forgetting are %v, want %v", got, want[:2])
	}
}

// One whose clock is days ahead does not forget what others keep: the server knows the time, too.
func TestForgettingWithAClockThatIsAhead(t *testing.T) {
	s := open(t, postgres.Config{URL: server(t).Schema(), Owner: "a"})
	now := time.Now()
	for _, ago := range []time.Duration{time.Minute, 4 * 24 * time.Hour} {
		if err := s.Write(t.Context(), rowsOf("b", 2, now.Add(-ago))); err != nil {
			t.Fatal(err)
		}
	}
	for more := true; more; {
		var err error
		if more, err = s.Forget(t.Context(), store.Retention{store.Raw: time.Hour}, now.Add(3*24*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, s, store.Query{}); n != 2 {
		t.Errorf("%d rows are left, want the 2 of the last hour", n)
	}
}

// Sixteen may read as slowly as they like: the program itself gets its answers, and writes.
func TestSlowReadersKeepNothingFromTheProgram(t *testing.T) {
	s := open(t, postgres.Config{URL: server(t).Schema()})
	if err := s.Write(t.Context(), rowsOf("n", 2, begin)); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	var read func(left int)
	read = func(left int) {
		for _, err := range s.Rows(ctx, store.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			if left > 0 {
				read(left - 1)
				return
			}
			break
		}
		own := store.Own(ctx)
		for _, err := range s.Sessions(own, store.Query{Open: true}) {
			t.Errorf("%v", err)
		}
		if _, err := s.Devices(own); err != nil {
			t.Error(err)
		}
		if _, err := s.Document(ctx, "floors"); err != nil {
			t.Error(err)
		}
		if err := s.Write(ctx, rowsOf("n", 2, begin.Add(time.Second))); err != nil {
			t.Error(err)
		}
	}
	read(15)
}

// Somebody reads for so long that nothing can be dropped: that is said, and writers go on.
func TestForgettingBesideALongReader(t *testing.T) {
	s := open(t, postgres.Config{URL: server(t).Schema()})
	if err := s.Write(t.Context(), rowsOf("n", 2, begin)); err != nil {
		t.Fatal(err)
	}
	kept, later := store.Retention{store.Raw: 0}, begin.Add(72*time.Hour)
	for _, err := range s.Rows(t.Context(), store.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		_, err := s.Forget(t.Context(), kept, later)
		advised(t, err, store.ErrLocked, "tries again")
		if err := s.Write(t.Context(), rowsOf("n", 2, begin.Add(time.Second))); err != nil {
			t.Error(err)
		}
		break
	}
	// It may take the server a moment to see that the reader has gone.
	testkit.Until(t, "the rest is forgotten", func() bool {
		more, err := s.Forget(t.Context(), kept, later)
		if err == nil && !more || err != nil && !errors.Is(err, store.ErrLocked) {
			t.Fatalf("afterwards: %v, %v", more, err)
		}
		return err == nil
	})
}

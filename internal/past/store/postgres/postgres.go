// Package postgres keeps the past in a PostgreSQL database, version 13 or later. Several gpuwhy processes can share one
// database: each writes rows about its own devices, and its own documents.
//
// All tables are in one schema, "gpuwhy" unless the address has a search_path. Readings are partitioned by day, spans by
// month; a partition past its retention is dropped whole.
package postgres

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/frames"
)

// Config says where the database is.
type Config struct {
	// URL is its address: "postgres://user@host:5432/database". It may have what libpq's may: sslmode, passfile,
	// connect_timeout and so on. The password may also be in the environment (PGPASSWORD) or in a file
	// (PGPASSFILE, ~/.pgpass). A password is in no error.
	URL string
	// Owner tells this gpuwhy from others that write into the same database: it reads only its own documents. It is the ID of its
	// installation, or its name where it has none. What is kept under the name is read where the owner has nothing.
	Owner string
	// Name is what the machine is called. Only one gpuwhy at a time writes under a name; empty: the owner. Where both are empty it is not
	// looked who else writes.
	Name string
	// Patience is how long writing a batch may take before the server counts as gone; 0 is ten seconds.
	Patience time.Duration
}

// readers is how many may read at the same time, unless the address says so (pool_max_conns).
const readers = 16

// A Store is a database on a server.
type Store struct {
	viewed   bool // it is only read, see [View]
	owner    string
	name     string // see [Config]
	server   string // its name for people
	schema   string
	patience time.Duration
	// Readers that take their time don't keep the writer, and what the program itself asks, from a connection.
	reader, own, writer *pgxpool.Pool

	mu    sync.Mutex // of what is known of the database
	known known

	preparing chan struct{} // has room for one
	claim     claim         // of the one who writes

	packing sync.Mutex
	packer  frames.Packer
}

// known is what need not be asked again. It is forgotten after an error: the server may be another one then.
type known struct {
	prepared   bool
	devices    map[store.Key]device
	partitions map[string]bool
	keys       map[int64]keyFrame
}

func nothing() known {
	return known{devices: map[store.Key]device{}, partitions: map[string]bool{}, keys: map[int64]keyFrame{}}
}

var _ store.Store = (*Store)(nil)

// Scheme reports whether an address is one of a PostgreSQL.
func Scheme(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

// CheckAddress returns a [gpu.Advice] where an address can't be understood. It asks no server.
func CheckAddress(address string) error {
	_, err := new(Store).configure(address)
	return err
}

// Open returns a store. It does not wait for the server: every method returns the server's error, and the first that
// reaches it makes the tables, or brings them up to date. An error is a [gpu.Advice] about the address.
func Open(c Config) (*Store, error) { return open(c, false) }

// View is Open to read alone: it makes no tables and changes none. Where there are none, or those of another version, every method
// says so; what would write returns [store.ErrReadOnly]. Compact may tidy.
func View(c Config) (*Store, error) { return open(c, true) }

func open(c Config, viewed bool) (*Store, error) {
	s := &Store{viewed: viewed, owner: store.Text(c.Owner), name: store.Text(cmp.Or(c.Name, c.Owner)), patience: c.Patience, known: nothing(), preparing: make(chan struct{}, 1),
		claim: claim{room: make(chan struct{}, 1)}}
	if s.patience == 0 {
		s.patience = 10 * time.Second
	}
	reader, err := s.configure(c.URL)
	if err != nil {
		return nil, err
	}
	if viewed {
		reader.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}
	own := reader.Copy()
	own.MaxConns = 4 // who writes, forecasts, the size; and documents
	writer := reader.Copy()
	writer.MaxConns = 2 // a batch; and tables are made on one connection under a lock that another one has
	if !viewed {
		writer.AfterConnect = stage
	}
	// All begin without a connection, so they are made in any case.
	ctx := context.Background()
	if s.reader, err = pgxpool.NewWithConfig(ctx, reader); err != nil {
		return nil, badAddress()
	}
	if s.own, err = pgxpool.NewWithConfig(ctx, own); err != nil {
		s.reader.Close()
		return nil, badAddress()
	}
	if s.writer, err = pgxpool.NewWithConfig(ctx, writer); err != nil {
		s.reader.Close()
		s.own.Close()
		return nil, badAddress()
	}
	return s, nil
}

// configure reads an address. What pgx says of a bad one may have the password in it, and is left out.
func (s *Store) configure(address string) (*pgxpool.Config, error) {
	if !Scheme(address) {
		return nil, badAddress()
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, badAddress()
	}
	c, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, badAddress()
	}
	conn := c.ConnConfig
	s.server = "the PostgreSQL server at " + net.JoinHostPort(conn.Host, strconv.Itoa(int(conn.Port)))
	parameters := conn.RuntimeParams
	for name, unless := range map[string]string{
		"search_path": "gpuwhy", "application_name": "gpuwhy",
		"jit": "off", // queries are short, and a plan would take longer to compile than to run
	} {
		if parameters[name] == "" {
			parameters[name] = unless
		}
	}
	s.schema, _, _ = strings.Cut(parameters["search_path"], ",")
	if !u.Query().Has("connect_timeout") && os.Getenv("PGCONNECT_TIMEOUT") == "" {
		conn.ConnectTimeout = 5 * time.Second
	}
	// A server that vanished is noticed after a minute, also by one who only reads.
	alive := net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}
	conn.DialFunc = (&net.Dialer{KeepAliveConfig: alive}).DialContext
	conn.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement // rows are read in the binary format that this asks for
	c.PingTimeout = 5 * time.Second
	c.MinConns, c.MinIdleConns = 0, 0
	if !u.Query().Has("pool_max_conns") {
		c.MaxConns = readers
	}
	return c, nil
}

func badAddress() error {
	return &gpu.Advice{
		What: "the address of the PostgreSQL server is invalid",
		Try:  "give it as postgres://user@host:5432/database, and the password in PGPASSWORD or in a file that PGPASSFILE names",
	}
}

// Close ends all connections. It waits for queries to end.
func (s *Store) Close() error {
	s.claim.room <- struct{}{}
	s.claim.end()
	<-s.claim.room
	s.reader.Close()
	s.own.Close()
	s.writer.Close()
	return nil
}

// asker has the connections for a question.
func (s *Store) asker(ctx context.Context) *pgxpool.Pool {
	if store.IsOwn(ctx) {
		return s.own
	}
	return s.reader
}

// know gives use the current knowledge about the database, which it may change.
func (s *Store) know(use func(k *known)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	use(&s.known)
}

// Package pgtest starts a PostgreSQL for tests: a server of its own, with no data, that ends with the test.
package pgtest

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
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// A Server is a PostgreSQL that listens on the loopback. Anyone may connect without a password, but for the role [Guarded].
type Server struct {
	dir, bin string
	port     int
	settings []string
	guard    *exec.Cmd // ends the server when alive is closed, which the end of this program does, too
	alive    io.Closer
	made     atomic.Int64 // databases
}

// Guarded is a role that needs a password, which is [Password].
const (
	Guarded  = "guarded"
	Password = "s3cret-w0rd"
)

// ErrMissing says that PostgreSQL is not installed.
var ErrMissing = errors.New("PostgreSQL is not installed: 'make needs-test' installs it")

// long is how many seconds a step of the server may take on a machine that is busy or stops.
const long = "600"

// Start makes a server and starts it with these settings, such as "fsync=on". Without any it writes nothing through to
// the disk, and does nothing by itself that holds locks. The error is [ErrMissing] where there is no PostgreSQL.
func Start(ctx context.Context, settings ...string) (s *Server, err error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "gpuwhy-postgres-")
	if err != nil {
		return nil, err
	}
	if len(settings) == 0 {
		settings = []string{"fsync=off", "full_page_writes=off", "autovacuum=off", "authentication_timeout=" + long}
	}
	s = &Server{dir: dir, bin: bin, settings: settings}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := errors.Join(s.watch(), s.initialize(ctx)); err != nil {
		return nil, err
	}
	if err := s.Run(ctx); err != nil {
		return nil, err
	}
	return s, s.guarded(ctx)
}

// programs is the folder of initdb and pg_ctl, of the newest version that Debian has installed or else of the path.
func programs() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
		return filepath.Dir(found[len(found)-1]), nil
	}
	initdb, err := exec.LookPath("initdb")
	if err != nil {
		return "", ErrMissing
	}
	initdb, err = filepath.EvalSymlinks(initdb)
	return filepath.Dir(initdb), err
}

func version(initdb string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	if err != nil {
		return 0 // older than what has a number
	}
	return n
}

// command is one of the server's programs. It runs as the user postgres in place of root, which it refuses.
func (s *Server) command(name string, args ...string) []string {
	c := append([]string{filepath.Join(s.bin, name)}, args...)
	if os.Getuid() == 0 {
		c = append([]string{"runuser", "-u", "postgres", "--"}, c...)
	}
	return c
}

func (s *Server) run(ctx context.Context, c []string) error {
	out, err := exec.CommandContext(ctx, c[0], c[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(c, " "), err, out)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) initialize(ctx context.Context) error {
	if os.Getuid() == 0 {
		if err := s.run(ctx, []string{"chown", "postgres", s.dir}); err != nil {
			return err
		}
	}
	ports, err := testkit.FreePorts(1)
	if err != nil {
		return err
	}
	s.port = ports[0]
	initdb := s.command("initdb", "-D", s.data(), "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-locale", "--no-sync")
	if err := s.run(ctx, initdb); err != nil {
		return err
	}
	access := "host all " + Guarded + " all scram-sha-256\nhost all all 127.0.0.1/32 trust\n"
	if err := os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(access), 0o600); err != nil {
		return err
	}
	return nil
}

// watch has the server ended, and its folder removed, when this program ends, however that happens: then there is nothing more
// to read. It outlives a context, and what ends all of the program's process group, as an interrupt at the terminal does.
func (s *Server) watch() error {
	stop := s.command("pg_ctl", "-D", s.data(), "-t", long, "-m", "immediate", "stop")
	s.guard = exec.Command("sh", append([]string{"-c", `cat; "$@"; rm -rf "$DIR"`, "sh"}, stop...)...)
	s.guard.Env = append(os.Environ(), "DIR="+s.dir)
	s.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	alive, err := s.guard.StdinPipe()
	if err != nil {
		return err
	}
	s.alive = alive
	return s.guard.Start()
}

// Run starts the server again after [Server.Halt], and returns when it answers.
func (s *Server) Run(ctx context.Context) error {
	settings := append([]string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=" + s.dir, "logging_collector=off",
	}, s.settings...)
	options := "-p " + strconv.Itoa(s.port) + " -c " + strings.Join(settings, " -c ")
	return s.run(ctx, s.command("pg_ctl", "-D", s.data(), "-w", "-t", long, "-s", "-l", filepath.Join(s.dir, "log"), "-o", options, "start"))
}

// Halt stops the server at once, as a crash would.
func (s *Server) Halt(ctx context.Context) error {
	return s.run(ctx, s.command("pg_ctl", "-D", s.data(), "-t", long, "-m", "immediate", "-s", "-w", "stop"))
}

// Processes are the pids of the server, the first of which has started the others.
func (s *Server) Processes() ([]int, error) {
	file, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(file), "\n")
	parent, err := strconv.Atoi(first)
	if err != nil {
		return nil, err
	}
	all := []int{parent}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	for _, name := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			return nil, err
		}
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		if _, after, ok := strings.Cut(string(stat), ") "); ok && strings.Fields(after)[1] == first {
			all = append(all, pid)
		}
	}
	return all, nil
}

// CPU is the time that all processes of the server have worked, also those that have ended.
func (s *Server) CPU() (time.Duration, error) {
	pids, err := s.Processes()
	if err != nil {
		return 0, err
	}
	var ticks int64
	for i, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended: the first counts it
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(after)[11:15] // of itself in the program and in the kernel, and of processes that ended
		if i > 0 {
			fields = fields[:2]
		}
		for _, f := range fields {
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return 0, err
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * (time.Second / 100), nil
}

// File is the path of a file of a database: what the server's pg_relation_filepath says.
func (s *Server) File(relative string) string { return filepath.Join(s.data(), relative) }

// Close ends the server and removes what it has.
func (s *Server) Close() error {
	if s.alive == nil {
		return os.RemoveAll(s.dir)
	}
	return errors.Join(s.alive.Close(), s.guard.Wait())
}

// URL is the address of a database as the role. Who connects has minutes for it.
func (s *Server) URL(database, role string) string {
	host := net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
	u := url.URL{Scheme: "postgres", User: url.User(role), Host: host, Path: "/" + database, RawQuery: "sslmode=disable&connect_timeout=" + long}
	return u.String()
}

func (s *Server) guarded(ctx context.Context) error {
	return s.exec(ctx, "postgres", "CREATE ROLE "+Guarded+" LOGIN PASSWORD '"+Password+"'")
}

func (s *Server) exec(ctx context.Context, database, sql string) (err error) {
	c, err := pgx.Connect(ctx, s.URL(database, "postgres"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	_, err = c.Exec(ctx, sql)
	return err
}

// Exec runs statements in a database as the server's owner.
func (s *Server) Exec(t testing.TB, database, sql string) {
	t.Helper()
	if err := s.exec(t.Context(), database, sql); err != nil {
		t.Fatal(err)
	}
}

// Database makes an empty database and returns its name.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := "test" + strconv.FormatInt(s.made.Add(1), 10)
	s.Exec(t, "postgres", "CREATE DATABASE "+name)
	return name
}

// Schema is the address of a schema that is not there yet, which is quicker to make than a database.
func (s *Server) Schema() string {
	return s.URL("postgres", "postgres") + "&search_path=test" + strconv.FormatInt(s.made.Add(1), 10)
}

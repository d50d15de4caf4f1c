package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	system "runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	ticksPerSecond = 100 // USER_HZ on every system that has GPUs
	tick           = time.Second / ticksPerSecond
	// refreshAfter is how long a process's rarely changing facts are kept. Each process adds up to the same time again, so that not all are
	// read at once.
	refreshAfter = 30 * time.Second
	sweepEvery   = time.Minute
	maxCommand   = 4 << 10 // bytes
	commLimit    = 15      // the kernel cuts a process's name to this length
)

// A process is what is known about a process, identified by its pid and start time.
type process struct {
	start uint64 // ticks since boot: with the pid, the process's identity
	comm  string // as the facts were read
	facts gpu.ProcessFacts
	place place     // what it belongs to
	due   time.Time // when to read name, user, command and place again

	ticks counter // of CPU time
	asked bool    // since the last sweep
}

// Describe sets the Facts of this machine's processes. It may be called several times for one reading, for example once per device.
//
//   - A new process with the pid of an old one gets its own facts.
//   - CPU is since the previous call for the process, and absent in the first.
//   - Command is NotPermitted unless [ShowCommands] allows it. Values of arguments
//     that look like secrets are masked, and it has at most 4 KiB.
//   - Program is NotPermitted unless [ShowCommands] allows it. It contains nothing of
//     the arguments except names of files, modules and classes, and has at most 255 bytes.
//   - RSS may lag behind by some hundred KiB, as the kernel's own count does.
//   - A zombie no longer exists: it has ended, nobody can end it again, and its parent has
//     yet to wait for it. Its name and user stay known.
//   - For any other ended process the only fact is that it does not exist; the others are
//     NotReported. The facts of a process that the system hides are NotPermitted. If the
//     two can't be distinguished, Exists is absent too.
//   - The names of containers and pods come from their runtime, which is asked in the
//     background, so they appear some readings later.
//   - Describe sets nothing if the pids are those of another namespace (see
//     [Reader.Hint]), and stops when ctx ends.
//
// For a user missing from /etc/passwd it asks the system's name service from time to time, which may be slow.
//
// Sources: /proc/<pid>/stat at each call; status, cmdline and cgroup from time to time, and environ of our own user's Jupyter kernels; the
// container runtimes (see names).
func (r *Reader) Describe(ctx context.Context, ps []gpu.Process) {
	r.describing.Lock()
	defer r.describing.Unlock()
	if !r.hint.IsZero() {
		for i := range ps {
			ps[i].Facts = gpu.ProcessFacts{}
		}
		return
	}
	now := r.now()
	r.sweep(now)
	for i := range ps {
		if ctx.Err() != nil {
			return
		}
		if r.portable {
			ps[i].Facts = r.describePortable(ctx, ps[i].PID, now)
			continue
		}
		ps[i].Facts = r.describe(ps[i].PID, now)
	}
}

func (r *Reader) describe(pid int, now time.Time) gpu.ProcessFacts {
	stat, err := r.stat(pid)
	if err != nil {
		delete(r.known, pid)
		return r.factsAbsent(pid, err)
	}
	p := r.known[pid]
	if p == nil || p.start != stat.start {
		p = &process{start: stat.start}
		r.known[pid] = p
	}
	p.asked = true
	if p.comm != stat.comm || !now.Before(p.due) {
		r.refresh(pid, p, stat.comm, now)
	}
	p.facts.CPU = gpu.Map(p.ticks.read(float64(stat.ticks), now), shareOfCore)
	p.facts.RSS = stat.resident()
	p.facts.Exists = gpu.Of(!stat.ended)
	p.facts.Started = gpu.Reading[time.Time]{}
	if !r.boot.IsZero() {
		p.facts.Started = gpu.Of(r.boot.Add(time.Duration(stat.start) * tick))
	}
	r.nameContainer(&p.facts, &p.place, now)
	return p.facts
}

// shareOfCore returns the share of one core that ticks per second are.
func shareOfCore(ticks float64) gpu.Percent { return gpu.Percent(100 * ticks / ticksPerSecond) }

// noteBoot calculates the boot time, which changes only when someone sets the clock. It tries again if this program or the machine stood
// still while it read the two clocks.
func (r *Reader) noteBoot() {
	const right, together = time.Second, 100 * time.Millisecond
	var boot time.Time
	for range 3 {
		now := r.now()
		up, err := r.uptime()
		if err != nil {
			return
		}
		if boot = now.Add(-up).UTC().Round(tick); r.now().Sub(now) < together {
			break
		}
	}
	if boot.Sub(r.boot).Abs() >= right {
		r.boot = boot
	}
}

// refresh reads what changes rarely: name, user, command and control group.
func (r *Reader) refresh(pid int, p *process, comm string, now time.Time) {
	p.comm = comm
	p.due = now.Add(refreshAfter + time.Duration(pid%30)*time.Second)
	uid, err := r.owner(pid)
	if err != nil {
		p.facts.User = gpu.Absent[string](absence(err))
	} else {
		p.facts.User = gpu.Of(r.users.name(uid, now))
	}
	p.facts.Exists = gpu.Of(true)
	r.locate(pid, p)
	args, argsErr := r.arguments(pid)
	p.facts.Name = gpu.Of(clean(fullName(comm, args)))
	own := err == nil && uid == r.uid
	p.facts.Command, p.facts.Private = r.show.commands(own, args, argsErr)
	p.facts.Program = readable(r.show.program(own), args, argsErr, func() string {
		name := programOf(comm, args)
		if name == jupyterKernel && own {
			name = r.kernelOf(pid)
		}
		return name
	})
}

// readable returns a reading made from a process's arguments, or why it is absent.
func readable(shown bool, args []string, err error, read func() string) gpu.Reading[string] {
	switch {
	case !shown:
		return gpu.Absent[string](gpu.NotPermitted)
	case err != nil:
		return gpu.Absent[string](absence(err))
	case len(args) == 0: // a kernel thread, or a process that has just ended
		return gpu.Reading[string]{}
	}
	return gpu.Of(read())
}

// commands returns the command line as everybody sees it, and the whole one for the process's user where that is another.
func (s ShowCommands) commands(own bool, args []string, err error) (shown gpu.Reading[string], private string) {
	shown = readable(s.command(own), args, err, func() string { return commandLine(args) })
	if !shown.Present() && s != ShowNone && err == nil && len(args) > 0 {
		private = commandLine(args)
	}
	return shown, private
}

// command reports whether a process's command line is shown; own means our own user's process.
func (s ShowCommands) command(own bool) bool {
	return s == ShowAll || own && (s == ShowOwn || s == ShowNames)
}

// program reports whether a program's name is shown.
func (s ShowCommands) program(own bool) bool { return s == ShowNames || s.command(own) }

// OfUser returns what is shown of a process of which only the user's name is known, such as a past one. Users are named as
// [Reader.Describe] names them.
func (s ShowCommands) OfUser() func(user string) (program, command bool) {
	own := ownName()
	if system.GOOS == "linux" {
		own = (&users{passwd: "/etc/passwd"}).name(os.Geteuid(), time.Now())
	}
	return func(user string) (program, command bool) {
		mine := user != "" && user == own
		return s.program(mine), s.command(mine)
	}
}

// kernelOf returns the name of our own user's Jupyter kernel, by its notebook. Of the environment, which is full of secrets, it keeps only
// the last part of that name.
func (r *Reader) kernelOf(pid int) string {
	environ, err := r.read(pid, "environ")
	if err != nil {
		return jupyterKernel
	}
	defer clear(environ)
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		notebook, ok := bytes.CutPrefix(variable, []byte("JPY_SESSION_NAME="))
		if !ok {
			continue
		}
		name := path.Base(string(notebook))
		if kind := path.Ext(name); kind == "" || kind == name || maskWithin(name) != name {
			break // a console has a number
		}
		return short(jupyterKernel + " of " + name)
	}
	return jupyterKernel
}

// fullName returns the program's file name if the kernel has cut the name.
func fullName(comm string, args []string) string {
	if len(comm) < commLimit || len(args) == 0 {
		return comm
	}
	// A program may write a title over its arguments: "postgres: checkpointer".
	program, _, _ := strings.Cut(args[0], " ")
	if base := path.Base(program); strings.HasPrefix(base, comm) {
		return base
	}
	return comm
}

// locate reads what the process belongs to.
func (r *Reader) locate(pid int, p *process) {
	f := &p.facts
	text, err := r.read(pid, "cgroup")
	if err != nil {
		p.place = place{}
		for _, group := range []any{&f.Container, &f.Pod, &f.Unit, &f.Job} {
			gpu.Withdraw(group, absence(err))
		}
		return
	}
	p.place = parseCgroup(string(text), r.privateCgroups)
	p.place.fill(f)
}

// factsAbsent returns facts that are all absent because stat could not be read. With hidepid=invisible, which also hides the first process,
// nobody knows whether the process exists.
func (r *Reader) factsAbsent(pid int, err error) (facts gpu.ProcessFacts) {
	gpu.Withdraw(&facts, absence(err))
	facts.Exists = gpu.Reading[bool]{}
	switch {
	case pid <= 0:
	case errors.Is(err, os.ErrPermission):
		facts.Exists = gpu.Of(true)
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ESRCH):
		if _, err := os.Stat(r.path("proc/1")); err == nil {
			facts.Exists = gpu.Of(false)
		}
	}
	return facts
}

// absence says why a reading is absent after an error.
func absence(err error) gpu.Quality {
	if errors.Is(err, os.ErrPermission) {
		return gpu.NotPermitted
	}
	return gpu.NotReported
}

// sweep forgets ended processes that nobody asks about.
func (r *Reader) sweep(now time.Time) {
	if now.Sub(r.swept).Abs() < sweepEvery {
		return
	}
	r.swept = now
	if r.portable {
		maps.DeleteFunc(r.known, func(_ int, p *process) bool {
			asked := p.asked
			p.asked = false
			return !asked
		})
		return
	}
	r.noteBoot()
	r.names.forget(now)
	for pid, p := range r.known {
		if p.asked {
			p.asked = false
			continue
		}
		if stat, err := r.stat(pid); err != nil || stat.start != p.start {
			delete(r.known, pid)
		}
	}
}

func (r *Reader) stat(pid int) (procStat, error) {
	text, err := r.read(pid, "stat")
	if err != nil {
		return procStat{}, err
	}
	return parseStat(text)
}

// owner returns a process's effective user.
func (r *Reader) owner(pid int) (int, error) {
	text, err := r.read(pid, "status")
	if err != nil {
		return 0, err
	}
	const effective = 1 // in order: real, effective, saved, file system
	ids := fieldsOf(text, "Uid:")
	if len(ids) <= effective {
		return 0, fmt.Errorf("no Uid in the status of process %d", pid)
	}
	return strconv.Atoi(string(ids[effective]))
}

// arguments reads a process's command line, up to 64 KiB.
func (r *Reader) arguments(pid int) ([]string, error) {
	text, err := r.read(pid, "cmdline")
	text = bytes.TrimRight(text, "\x00 ")
	if err != nil || len(text) == 0 {
		return nil, err
	}
	return strings.Split(string(text), "\x00"), nil
}

// read reads a process's file into r.buf, which the next read overwrites.
func (r *Reader) read(pid int, name string) ([]byte, error) {
	if pid <= 0 {
		return nil, os.ErrNotExist
	}
	n, err := readInto(r.root+"/proc/"+strconv.Itoa(pid)+"/"+name, r.buf, math.MaxInt)
	return r.buf[:n], err
}

// procStat holds the fields used from /proc/<pid>/stat.
type procStat struct {
	comm   string
	parent int
	ticks  uint64 // CPU time, user and system
	waited uint64 // the same of ended children that were waited for
	start  uint64 // ticks since boot
	rss    gpu.Bytes
	ended  bool // a zombie without living threads: only this entry is left
}

// resident returns the process's memory. The kernel adds up the processors' counts late, so a small process can have 0 at first, which is
// never true.
func (s *procStat) resident() gpu.Reading[gpu.Bytes] {
	if s.rss == 0 {
		return gpu.Reading[gpu.Bytes]{}
	}
	return gpu.Of(s.rss)
}

// parseStat parses a line whose name may contain spaces and parentheses.
func parseStat(text []byte) (procStat, error) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return procStat{}, errors.New("no name in a process's stat")
	}
	// Numbered as in proc_pid_stat(5); the first field after the name is 3.
	const state, ppid, utime, stime, cutime, cstime, threads, starttime, rss = 3, 4, 14, 15, 16, 17, 20, 22, 24
	var v [rss + 1]uint64
	field, ended := state, false
	for word := range bytes.FieldsSeq(text[end+1:]) {
		switch field {
		case state:
			ended = string(word) == "Z" || string(word) == "X"
		case ppid, utime, stime, cutime, cstime, threads, starttime, rss:
			var err error
			if v[field], err = strconv.ParseUint(string(word), 10, 64); err != nil && field != cutime && field != cstime { // these two are signed
				return procStat{}, fmt.Errorf("field %d of a process's stat: %w", field, err)
			}
		}
		if field++; field > rss {
			memory := gpu.Bytes(v[rss]) * gpu.Bytes(os.Getpagesize())
			return procStat{
				comm: string(text[open+1 : end]), parent: int(v[ppid]),
				ticks: v[utime] + v[stime], waited: v[cutime] + v[cstime], start: v[starttime], rss: memory,
				ended: ended && v[threads] <= 1, // the state is the first thread's; others may live on
			}, nil
		}
	}
	return procStat{}, fmt.Errorf("a process's stat has %d fields", field-1)
}

// fieldsOf returns the words after a key in a file such as /proc/<pid>/status.
func fieldsOf(text []byte, key string) [][]byte {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(key)); ok {
			return bytes.Fields(rest)
		}
	}
	return nil
}

package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	utilexec "k8s.io/client-go/util/exec"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	collecting = 20 * time.Millisecond // commands that arrive this close together share a round
	onceFor    = 10 * time.Minute      // until a stream that did not hold is tried again
	holds      = 3                     // rounds after which a stream counts as stable
	longPause  = time.Minute
	mostKept   = 32        // answers
	oftenAsked = time.Hour // a stream is renewed, with current rights
)

// A console executes commands on a node in rounds: each round in its own exec, or all rounds in one.
type console struct {
	cfg   *Cluster
	api   *api
	slots chan struct{} // of the cluster
	log   *slog.Logger
	// where returns the container to use now, or why there is none.
	where func() (target, *gpu.Advice)
	// lacks is called if the container has no nvidia-smi.
	lacks func(target)
	// explain says what an error of exec means.
	explain func(context.Context, target, error) *gpu.Advice
	// processes returns the pids to ask about in this round, none unless it may ask; told receives the output.
	processes func(may bool) []string
	told      func(text []byte, err error)

	pace    atomic.Int64 // a time.Duration
	changed chan struct{}

	mu      sync.Mutex
	jobs    []*job
	answers map[string]*answer
	failure *gpu.Advice
	retry   time.Time

	// Only run uses this.
	failures int
	s        *session
	broken   int // streams in a row that did not hold
	onceTill time.Time
	noShell  bool
	late     map[string]bool // commands that did not end in time are executed last
	was      target
}

// A job waits for the output of a command.
type job struct {
	key     string
	args    []string
	repeats bool
	ran     bool // guarded by the console
	done    chan error

	mu   sync.Mutex
	over bool
	out  io.Writer
}

func (j *job) write(text []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.over {
		_, _ = j.out.Write(text) // it never fails
	}
}

func (j *job) end(err error) {
	select {
	case j.done <- err:
	default:
	}
}

// An answer is the output of a command that ends by itself.
type answer struct {
	args   []string
	text   []byte
	err    error
	ended  time.Time // zero: not yet
	asked  time.Time
	wanted bool
}

// processList is the script's word for listing processes.
const processList = "processes"

// single returns the command that prints once what the arguments would print repeatedly.
func single(args []string) (out []string, repeats bool) {
	pmon := len(args) > 0 && args[0] == "pmon"
	for i := 0; i < len(args); i++ {
		switch {
		case strings.HasPrefix(args[i], "--loop-ms="):
			repeats = true
		case pmon && args[i] == "-d":
			out, repeats = append(out, "-c", "1"), true
			i++
		default:
			out = append(out, args[i])
		}
	}
	return out, repeats
}

// Run implements smi.Run. The output of a repeating command comes at the console's pace.
func (c *console) Run(ctx context.Context, stdout, _ io.Writer, args ...string) error {
	j := &job{out: stdout, done: make(chan error, 1)}
	j.args, j.repeats = single(args)
	j.key = strings.Join(j.args, " ")
	if answered, err := c.enter(j); answered {
		return err
	}
	c.wake()
	defer c.leave(j)
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter queues a job, or answers it with recent output.
func (c *console) enter(j *job) (answered bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if !j.repeats {
		a := c.answers[j.key]
		if a == nil {
			for len(c.answers) >= mostKept {
				for key := range c.answers {
					delete(c.answers, key)
					break
				}
			}
			a = &answer{args: j.args}
			c.answers[j.key] = a
		}
		a.asked, a.wanted = now, true
		if !a.ended.IsZero() && a.err == nil && now.Sub(a.ended) <= max(c.paceNow(), collecting) {
			j.write(a.text)
			return true, nil
		}
	}
	c.jobs = append(c.jobs, j)
	return false, nil
}

func (c *console) leave(j *job) {
	c.mu.Lock()
	c.jobs = slices.DeleteFunc(c.jobs, func(other *job) bool { return other == j })
	c.mu.Unlock()
	j.mu.Lock()
	j.over = true
	j.mu.Unlock()
}

func (c *console) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

func (c *console) paceNow() time.Duration { return time.Duration(c.pace.Load()) }

func (c *console) now() time.Time { return c.api.clock.Now() }

// untilDeadline returns a context that is also canceled when a node must have answered.
func (c *console) untilDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	t := c.api.clock.AfterFunc(c.cfg.Deadline, cancel)
	return ctx, func() { t.Stop(); cancel() }
}

// advice says why nothing can be executed now; nil: it can, or is worth a try.
func (c *console) advice(now time.Time) *gpu.Advice {
	if _, no := c.where(); no != nil {
		return no
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.retry) {
		return c.failure
	}
	return nil
}

// due returns the commands of a round. A round on the grid has all repeating commands, and those that will soon be needed again.
func (c *console) due(now time.Time, grid bool) (all []command) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var keys []string
	add := func(key string, args []string) {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
			all = append(all, command{len(all) + 1, args})
		}
	}
	for _, j := range c.jobs {
		if j.repeats && (grid || !j.ran) || !j.repeats {
			add(j.key, j.args)
		}
	}
	if len(c.jobs) == 0 {
		return nil // nobody reads the node
	}
	if !grid {
		return all
	}
	const soon, used = 45 * time.Second, 5 * time.Minute
	for key, a := range c.answers {
		if !a.ended.IsZero() && now.Sub(a.asked) < used && key != "--help-query-gpu" && (a.wanted || now.Sub(a.ended) >= soon) {
			add(key, a.args)
		}
	}
	slices.SortStableFunc(all, func(a, b command) int {
		late := func(x command) int {
			if c.late[strings.Join(x.args, " ")] {
				return 1
			}
			return 0
		}
		return late(a) - late(b)
	})
	return all
}

// run executes what is due until ctx ends.
func (c *console) run(ctx context.Context) {
	defer c.hangUp()
	c.setPace()
	next := c.now().Add(jitter(c.paceNow()) / 2)
	for {
		t := c.api.clock.NewTimer(c.api.clock.Until(next))
		grid := false
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-c.changed:
			t.Stop()
			if !c.api.sleep(ctx, collecting) {
				return
			}
		case <-t.Chan():
			grid = true
		}
		now := c.now()
		if !now.Before(next) {
			grid = true
			for next = next.Add(c.paceNow()); !next.After(now); {
				next = now.Add(c.paceNow())
			}
		}
		if why := c.advice(now); why != nil {
			if _, none := c.where(); none != nil {
				c.hangUp()
			}
			c.refuse(why)
			continue
		}
		commands := c.due(now, grid)
		if len(commands) == 0 {
			continue
		}
		if pids := c.processes(grid && !c.noShell); len(pids) > 0 {
			commands = append(commands, command{len(commands) + 1, append([]string{processList}, pids...)})
		}
		pod, _ := c.where()
		if pod != c.was {
			c.hangUp()
			c.was, c.noShell, c.broken = pod, false, 0
		}
		err := c.round(ctx, pod, commands)
		if ctx.Err() != nil {
			return
		}
		c.judge(ctx, pod, err)
		if before := c.paceNow(); c.setPace() != before {
			next = c.now().Add(c.paceNow())
		}
	}
}

// setPace sets the pace for the current way of executing commands.
func (c *console) setPace() time.Duration {
	pace := c.cfg.Interval
	if !c.loops(c.now()) {
		pace = c.cfg.ExecInterval
	}
	c.pace.Store(int64(pace))
	return pace
}

// loops reports whether one stream is used for all rounds.
func (c *console) loops(now time.Time) bool {
	return c.cfg.Mode != Once && !c.noShell && (c.cfg.Mode != Auto || !now.Before(c.onceTill))
}

// errLacks means a container without nvidia-smi.
var errLacks = errors.New("nvidia-smi is not in the container")

// judge records how a round went.
func (c *console) judge(ctx context.Context, pod target, err error) {
	if err == nil {
		c.mu.Lock()
		recovered := c.failure != nil
		c.failure, c.retry, c.failures = nil, time.Time{}, 0
		c.mu.Unlock()
		if recovered {
			c.log.Info("nvidia-smi can be executed again", "pod", pod.pod)
		}
		return
	}
	c.hangUp()
	var why *gpu.Advice
	if errors.Is(err, errLacks) {
		c.lacks(pod)
		why = &gpu.Advice{
			What: fmt.Sprintf("nvidia-smi is not in the container %s of pod %s", pod.container, pod.pod),
			Try:  "name a pod that has it, with pods in the clusters file",
			Err:  errors.Join(gpu.ErrNoDriver, err),
		}
	} else {
		why = c.explain(ctx, pod, err)
	}
	pause := jitter(min(time.Second<<min(c.failures, 8), longPause))
	c.failures++
	c.mu.Lock()
	known := c.failure != nil && c.failure.What == why.What
	c.failure, c.retry = why, c.now().Add(pause)
	c.mu.Unlock()
	if !known {
		c.log.Warn("nvidia-smi can't be executed on the node", "what", why.What, "try", why.Try)
	}
	c.log.Debug("an exec failed", "pod", pod.pod, "err", err)
	c.refuse(why)
}

// refuse ends all jobs.
func (c *console) refuse(why *gpu.Advice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.jobs {
		j.end(why)
	}
	for _, a := range c.answers {
		a.wanted = false
	}
}

// round executes commands. The error says why none of them began.
func (c *console) round(ctx context.Context, pod target, commands []command) error {
	r := &round{c: c, commands: commands, left: len(commands), finished: make(chan struct{})}
	switch {
	case c.noShell:
		return c.each(ctx, pod, r)
	case c.loops(c.now()):
		return c.through(ctx, pod, r)
	default:
		return c.once(ctx, pod, r)
	}
}

// take waits until one more exec may begin.
func (c *console) take(ctx context.Context) bool {
	select {
	case c.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *console) give() { <-c.slots }

// once executes the round in its own exec.
func (c *console) once(ctx context.Context, pod target, r *round) error {
	if !c.take(ctx) {
		return ctx.Err()
	}
	defer c.give()
	text, mark := newScript(c.limit())
	args := []string{"sh", "-c", text, "sh"}
	for i := range r.commands {
		args = append(args, r.commands[i].String())
	}
	limit, cancel := c.untilDeadline(ctx)
	defer cancel()
	out := r.output(mark)
	err := c.api.exec(limit, pod, args, nil, out, out)
	out.end()
	if limit.Err() != nil {
		err = context.DeadlineExceeded
	}
	if withoutShell(err, out.said()) {
		c.noShell = true
		return c.each(ctx, pod, r)
	}
	return r.close(err, out)
}

// limit is how long a command may take in the container.
func (c *console) limit() time.Duration { return c.cfg.Deadline / 2 }

// withoutShell reports whether the container has no shell.
func withoutShell(err error, said string) bool {
	if err == nil {
		return false
	}
	text := err.Error() + said
	return strings.Contains(text, `"sh"`) && (strings.Contains(text, "not found") || strings.Contains(text, "no such file"))
}

// each executes the commands one by one, without a shell.
func (c *console) each(ctx context.Context, pod target, r *round) error {
	if !c.take(ctx) {
		return ctx.Err()
	}
	defer c.give()
	for i := range r.commands {
		id := r.commands[i].id
		if r.commands[i].args[0] == processList {
			continue
		}
		limit, cancel := c.untilDeadline(ctx)
		out := &output{print: r.print, id: id, begun: true, mark: []byte("\x00")}
		err := c.api.exec(limit, pod, append([]string{"nvidia-smi"}, r.commands[i].args...), nil, out, out)
		expired := limit.Err() != nil
		cancel()
		out.end()
		code := 0
		if e, ok := errors.AsType[utilexec.CodeExitError](err); ok {
			code = e.Code
		} else if err != nil && !expired {
			if strings.Contains(err.Error(), "not found") && strings.Contains(err.Error(), `"nvidia-smi"`) {
				return errLacks
			}
			return err
		}
		if !expired {
			r.ended(id, code)
		}
	}
	return r.close(nil, nil)
}

// A round is a set of commands being executed.
type round struct {
	c        *console
	commands []command

	mu       sync.Mutex
	text     [][]byte // of commands that end by themselves
	done     []bool
	left     int
	lacks    bool
	finished chan struct{} // closed when all have ended
}

func (r *round) output(mark string) *output {
	return &output{mark: []byte(mark), print: r.print, ended: r.ended}
}

// waiting returns the jobs of a command, and whether it repeats.
func (c *console) waiting(key string) (all []*job, repeats bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.jobs {
		if j.key == key {
			all = append(all, j)
			repeats = repeats || j.repeats
		}
	}
	return all, repeats
}

func (r *round) print(id int, text []byte) {
	i := r.index(id)
	if i < 0 {
		return
	}
	jobs, repeats := r.c.waiting(r.key(i))
	if repeats {
		for _, j := range jobs {
			j.write(text)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grow()
	if !repeats {
		r.text[i] = append(r.text[i], text...)
	}
}

// index finds a command by its number.
func (r *round) index(id int) int {
	return slices.IndexFunc(r.commands, func(c command) bool { return c.id == id })
}

func (r *round) key(i int) string { return strings.Join(r.commands[i].args, " ") }

func (r *round) grow() {
	if r.text == nil {
		r.text = make([][]byte, len(r.commands))
	}
	if r.done == nil {
		r.done = make([]bool, len(r.commands))
	}
}

// An exit is a command's exit code.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// ExitCode returns the code.
func (e exit) ExitCode() int { return int(e) }

// Exit codes of a shell: command not found, and ended on time limit (by timeout, and by a signal).
const (
	notThere = 127
	tooLong  = 124
	killed   = 128 + 9
)

func (r *round) ended(id, code int) {
	i := r.index(id)
	if i < 0 {
		return
	}
	r.mu.Lock()
	r.grow()
	if r.done[i] {
		r.mu.Unlock()
		return
	}
	r.done[i] = true
	text := r.text[i]
	process := r.commands[i].args[0] == processList
	r.lacks = r.lacks || code == notThere && !process
	r.mu.Unlock()
	var err error
	if code != 0 {
		err = exit(code)
	}
	if process {
		r.c.told(text, err)
	} else if code != notThere {
		r.c.finish(r.key(i), text, err, code == tooLong || code == killed)
	}
	r.mu.Lock()
	if r.left--; r.left == 0 {
		close(r.finished)
	}
	r.mu.Unlock()
}

// finish records the end of a command.
func (c *console) finish(key string, text []byte, err error, late bool) {
	now := c.now()
	c.mu.Lock()
	if a := c.answers[key]; a != nil {
		a.text, a.err, a.ended, a.wanted = text, err, now, false
	}
	if c.late[key] = late; !late {
		delete(c.late, key)
	}
	var mine []*job
	for _, j := range c.jobs {
		if j.key == key {
			mine, j.ran = append(mine, j), true
		}
	}
	c.mu.Unlock()
	for _, j := range mine {
		if !j.repeats {
			j.write(text)
		}
		if !j.repeats || err != nil && !late { // a late command is silent until the next round
			j.end(err)
		}
	}
}

// close ends a round. The error says why nothing was executed; commands that were executed and have not ended are late.
func (r *round) close(err error, out *output) error {
	r.mu.Lock()
	r.grow()
	var open []string
	for i, done := range r.done {
		if !done && r.commands[i].args[0] != processList {
			open = append(open, r.key(i))
		}
	}
	all, lacks := r.left == len(r.commands), r.lacks
	r.mu.Unlock()
	switch {
	case lacks:
		return errLacks
	case all && err != nil && (out == nil || !out.started()):
		if out != nil && out.said() != "" {
			err = fmt.Errorf("%w: %s", err, out.said())
		}
		return err
	case all && out != nil && !out.started():
		return fmt.Errorf("the shell ended without a word: %s", out.said())
	}
	for _, key := range open {
		r.c.finish(key, nil, context.DeadlineExceeded, true)
	}
	if all && err != nil { // it began, and no command ended
		return err
	}
	return nil
}

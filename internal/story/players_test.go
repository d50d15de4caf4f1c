//go:build !race

package story

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// A result is what came of a story.
type result struct {
	Marks    []mark
	Wrong    []string // what is wrong at which time
	Told     string   // what was said at each reading, for -tell
	Plays    time.Duration
	Restless bool // its first cause changes more often than is right
	Ended    bool // the player played it to its end
}

// A mark is an answer that was judged.
type mark struct {
	Kind, Certainty string // of the first cause
	Right           bool
}

// A process can load one driver library, and that has one machine. So each player is a
// process of its own: this test's program once more, which reads names of stories from
// its input and writes results to its third file.
const libraryOfPlayer = "GPUWHY_STORY_LIBRARY"

// TestPlayer plays stories for TestStories, in its processes. Elsewhere it has none to play.
func TestPlayer(t *testing.T) {
	dir := os.Getenv(libraryOfPlayer)
	if dir == "" {
		return
	}
	lib := fakenvml.Open(dir)
	results := json.NewEncoder(os.NewFile(3, "results"))
	for names := bufio.NewScanner(os.Stdin); names.Scan(); {
		var r result
		t.Run(filepath.Base(names.Text()), func(t *testing.T) {
			s, err := read(names.Text())
			if err == nil && !s.RealTime { // there the driver hangs as it does
				err = lib.SleepInGo()
			}
			if err != nil {
				t.Fatal(err)
			}
			r = judged(t, lib, s)
		})
		if err := results.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
}

// judged plays a story and judges what is said.
func judged(t *testing.T, lib *fakenvml.Library, s *Story) (r result) {
	said, changes, told := "", -1, map[string]int{}
	var tell strings.Builder
	nothing := &Expectation{At: Marks{span: true}} // but what is forbidden
	before := map[*Expectation]mark{}
	note := func(elapsed time.Duration, scene int, e *Expectation, v verdict) {
		// An answer that stays the same from reading to reading is one answer.
		m := mark{v.kind, v.certainty, len(v.wrong) == 0}
		if !e.At.span || before[e] != m {
			r.Marks = append(r.Marks, m)
		}
		before[e] = m
		if wrong := strings.Join(v.wrong, "; "); wrong != "" {
			if told[wrong]++; told[wrong] <= 2 {
				r.Wrong = append(r.Wrong, fmt.Sprintf("at %v (scene %d): %s: %s", elapsed, scene+1, wrong, v.said))
			}
		}
	}
	play(t, lib, s, func(scene int, elapsed time.Duration, host *machine, m *insight.Moment) {
		r.Plays += s.Every.Duration
		if *verbose {
			sentence, causes := lead(m, nil)
			a := m.Answer.Layers
			fmt.Fprintf(&tell, "%6v [%s/%s %v] %s\n\t\t%s | %v | %s | %s\n",
				elapsed, causes[0].Kind, causes[0].Case, causes[0].Confidence, sentence, a.Headline, a.Facts, a.Rest, a.Action.Command)
		}
		if now := headline(m); now != said {
			said = now
			changes++
		}
		forbidden, judgedHere := always(s, m), false
		sc := &s.Scenes[scene]
		for i := range sc.Expect {
			e := &sc.Expect[i]
			if !e.At.due(elapsed-s.sceneStart[scene], s.Every.Duration) {
				continue
			}
			v := judge(e, host, elapsed, m)
			if e.GPU == nil && !judgedHere { // it is about the same answer
				v.wrong, judgedHere = append(v.wrong, forbidden.wrong...), true
			}
			note(elapsed, scene, e, v)
		}
		if len(forbidden.wrong) > 0 && !judgedHere {
			note(elapsed, scene, nothing, forbidden)
		} else {
			delete(before, nothing)
		}
	})
	if r.Restless = s.Calm != nil && changes > *s.Calm; r.Restless {
		r.Wrong = append(r.Wrong, fmt.Sprintf("the first cause changes %d times, but at most %d changes are right", changes, *s.Calm))
	}
	r.Told, r.Ended = tell.String(), true
	return r
}

// Players play stories, as many at a time as the machine has cores. Those that take
// their time have a process each, beside the others.
type players struct {
	t       *testing.T
	dir     string
	queue   chan job
	running sync.WaitGroup
	broken  []error // of processes that did not end well
	mu      sync.Mutex
}

type job struct {
	file string
	done chan result
}

func newPlayers(t *testing.T, stories int) *players {
	p := &players{t: t, dir: t.TempDir(), queue: make(chan job, stories)}
	for range min(runtime.GOMAXPROCS(0), 8) {
		p.running.Go(func() { p.serve(p.queue, "GOMAXPROCS=1", "GOGC=1000") }) // at half the cost
	}
	return p
}

// play has a story played, and gives what came of it later.
func (p *players) play(file string, inRealTime bool) <-chan result {
	j := job{file, make(chan result, 1)}
	if !inRealTime {
		p.queue <- j
		return j.done
	}
	alone := make(chan job, 1)
	alone <- j
	close(alone)
	p.running.Go(func() { p.serve(alone) })
	return j.done
}

// end waits for the processes and returns what was wrong with them.
func (p *players) end() error {
	close(p.queue)
	p.running.Wait()
	return errors.Join(p.broken...)
}

// serve plays jobs, in a process as long as it lives.
func (p *players) serve(jobs <-chan job, env ...string) {
	runtime.LockOSThread() // which ends with it
	for _, right := range []uintptr{unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH} {
		// Root may read everything, and a player nothing that a story's user may not. Who is not root can't give up
		// what they don't have.
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, right, 0, 0, 0)
	}
	for next := range jobs {
		if err := p.process(next, jobs, env); err != nil {
			p.mu.Lock()
			p.broken = append(p.broken, err)
			p.mu.Unlock()
		}
	}
}

func (p *players) process(first job, more <-chan job, env []string) error {
	dir, err := os.MkdirTemp(p.dir, "player-")
	if err != nil {
		close(first.done)
		return err
	}
	_, err = fakenvml.New(dir)
	reader, writer, err2 := os.Pipe()
	if err := cmp.Or(err, err2); err != nil {
		close(first.done)
		return err
	}
	defer reader.Close()
	args := []string{"-test.run=^TestPlayer$", "-test.timeout=20m", fmt.Sprintf("-tell=%v", *verbose)}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), libraryOfPlayer+"="+dir, "TMPDIR="+dir), env...)
	cmd.ExtraFiles = []*os.File{writer}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	writer.Close()
	if err != nil {
		close(first.done)
		return err
	}
	results := json.NewDecoder(reader)
	for j, ok := first, true; ok; j, ok = <-more {
		var r result
		_, err := fmt.Fprintln(in, j.file)
		if err = cmp.Or(err, results.Decode(&r)); err != nil {
			j.done <- result{}
			break
		}
		j.done <- r
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("a player: %w\n%s", err, said.String())
	}
	return nil
}

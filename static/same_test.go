//go:build !race

package static_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// A walk goes through Moments at random: most differ little from the one before, some in all.
type walk struct {
	*site
	*rand.Rand
	last *gpu.Snapshot
	keep bool // device 7 is always there, but for a step now and then
}

// step is the next Moment.
func (w *walk) step() {
	w.pass(time.Duration(1+w.IntN(3)) * time.Second)
	if w.IntN(8) == 0 {
		w.pass(time.Duration(w.IntN(300)) * time.Second)
	}
	now := w.time()
	switch n := w.IntN(12); {
	case w.last == nil || n == 0:
		w.last = randomSnapshot(w.Rand, now)
	case n == 1:
		w.last = fixture.Many(now, pick(w.Rand, 1, 2, 8, 12, 13, 40, 64, 65, 200))
	case n == 2:
		w.last = w.example(pick(w.Rand, "one", "eight", "none", "no card", "no fan", "idle", "odd", "silent"))
	case n == 3: // another number of cards, of which anything may be reported
		w.last = randomSnapshot(w.Rand, now)
		w.last.Devices = nil
		for i := range pick(w.Rand, 0, 1, 2, 9, 30) {
			w.last.Devices = append(w.last.Devices, randomDevice(w.Rand, i, w.last.Node, now))
		}
	default:
		w.change(n, now)
	}
	if w.keep && w.IntN(6) > 0 {
		if _, found := w.last.Device("GPU-7"); !found {
			w.last.Devices = append(w.last.Devices, randomDevice(w.Rand, 7, w.last.Node, now))
		}
	}
	snap := *w.last
	snap.Devices = append([]gpu.Device(nil), snap.Devices...) // a Moment is never changed
	w.publish(&snap)
}

// change changes a few devices of the last machine.
func (w *walk) change(n int, now time.Time) {
	s := *w.last
	s.Devices = append([]gpu.Device(nil), s.Devices...)
	w.last = &s
	for i := range s.Devices {
		d := &s.Devices[i]
		if d.State == gpu.StateOK {
			d.SampledAt = now
		}
		switch {
		case n >= 10 || w.IntN(4) > 0:
		case n < 6: // its figures
			d.Utilization.GPU = gpu.Map(d.Utilization.GPU, func(gpu.Percent) gpu.Percent { return gpu.Percent(w.IntN(101)) })
			d.Thermal.GPU = gpu.Map(d.Thermal.GPU, func(v gpu.Celsius) gpu.Celsius { return v + gpu.Celsius(w.IntN(5)) - 2 })
			d.Power.Draw = gpu.Map(d.Power.Draw, func(v gpu.Watts) gpu.Watts { return v * gpu.Watts(0.9+0.2*w.Float64()) })
		case n < 8: // its processes
			list := append([]gpu.Process(nil), d.Processes.Or(nil)...)
			if len(list) > 0 && w.IntN(2) == 0 {
				index := w.IntN(len(list))
				list = append(list[:index], list[index+1:]...)
			} else {
				list = append(list, randomProcess(w.Rand, now))
			}
			d.Processes = gpu.Of(list)
		case d.State == gpu.StateOK:
			d.State, d.Since, d.Readings = pick(w.Rand, gpu.StateLost, gpu.StateNotAnswering, gpu.StateAsleep), now, gpu.Readings{}
		default:
			*d = randomDevice(w.Rand, d.Index, s.Node, now)
		}
	}
	if n == 10 { // in another order
		w.Shuffle(len(s.Devices), func(i, j int) { s.Devices[i], s.Devices[j] = s.Devices[j], s.Devices[i] })
	}
}

// say says something of an alert, as a person does.
func (w *walk) say(t *testing.T) {
	t.Helper()
	engine := app.Find[*alerts.Room](w.App).Book
	standing := engine.Standing()
	if len(standing) == 0 {
		return
	}
	a := pick(w.Rand, standing...)
	switch now := w.pass(time.Second); {
	case a.State == alert.Resolved:
		return
	case w.IntN(3) == 0:
		if _, _, err := engine.Silence(alert.Silence{Rule: a.Rule, Until: now.Add(time.Hour), By: "ann", Comment: "<i>known</i>"}, now); err != nil {
			t.Logf("silence: %v", err)
		}
	case a.Acknowledged != nil:
		if _, err := engine.Acknowledge(a.ID, nil); err != nil {
			t.Fatal(err)
		}
	default:
		if _, err := engine.Acknowledge(a.ID, &alert.Acknowledgment{By: "bob", Comment: "I look", At: now}); err != nil {
			t.Fatal(err)
		}
	}
}

// choice chooses something on the page, or goes back.
const choice = `((of, random) => {
  const any = (list) => list[Math.floor(random * list.length)];
  const links = [...document.querySelectorAll("a[data-choice][href]")];
  const lists = [...document.querySelectorAll("form[data-choice] select")];
  if (of === 0 && window.chosen > 0) { chosen--; history.back(); return; }
  if (of === 1 && lists.length) {
    const list = any(lists);
    list.selectedIndex = Math.floor(random * list.options.length);
    list.dispatchEvent(new Event("input", { bubbles: true }));
    return;
  }
  if (!links.length) return;
  const before = history.length;
  any(links).click();
  if (history.length > before) window.chosen = (window.chosen ?? 0) + 1;
})(%d, %f)`

// walked are the pages that walks go through.
var walked = []string{"", "?show=busy&sort=temperature", "gpu/GPU-7", "alerts", "alerts?group=gpu", "processes", "processes?group=user", "processes?process=a/GPU-0/3", "about"}

// A page that is kept up to date is the page that the server sends, to the letter, after any change of what
// the machines are like, of what people say, and of what was chosen.
func TestThePageIsTheServedPage(t *testing.T) {
	t.Parallel()
	for i, page := range walked {
		t.Run("page "+page, func(t *testing.T) {
			t.Parallel()
			staysTheSame(t, page, uint64(i), 12)
		})
	}
}

// staysTheSame walks a number of steps. Of the same seed it is the same walk.
func staysTheSame(t *testing.T, page string, seed uint64, steps int) {
	t.Helper()
	w := &walk{site: newSite(t), Rand: rand.New(rand.NewPCG(seed, 7)), keep: page == "gpu/GPU-7"}
	for w.step(); w.keep && get(t, w.URL+page) != http.StatusOK; {
		w.step()
	}
	if code := get(t, w.URL+page); code == http.StatusNotFound {
		t.Skip("there is no such page yet")
	}
	tab := w.open(t, page, 1440, 900)
	do(tab, `window.sameDocument = true`)
	for i := range steps {
		switch w.IntN(10) {
		case 0:
			w.say(t)
		case 1:
			do(tab, fmt.Sprintf(choice, w.IntN(3), w.Float64()))
		case 2: // a reader that skips many
			for range 2 + w.IntN(12) {
				w.step()
			}
		case 3: // it was away, while others looked
			w.refuse.Store(true)
			w.cut()
			w.away.Store(w.IntN(2) == 0)
			if w.IntN(2) == 0 {
				do(tab, fmt.Sprintf(choice, w.IntN(3), w.Float64()))
			}
			address := browser.Ask[string](tab, `location.href`)
			for range 1 + w.IntN(12) {
				w.step()
				get(t, address)
			}
			w.refuse.Store(false)
			w.away.Store(false)
		default:
			w.step()
		}
		if !sameAsServed(t, tab) {
			t.Fatalf("step %d of seed %d", i, seed)
		}
	}
	used := browser.Ask[map[string]int](tab, `wire`)
	t.Logf("%v", used)
	if used["patched"] < steps/3 || !browser.Ask[bool](tab, `window.sameDocument === true`) {
		t.Errorf("the page was not patched, or was loaded anew: %v", used)
	}
	quiet(tab, expected...)
}

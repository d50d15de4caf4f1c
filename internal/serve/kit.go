package serve

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
	"github.com/gpuwhy/gpuwhy/internal/serve/live"
)

// A Hub has the newest Moments and the viewers. Many goroutines call it at the same time.
type Hub interface {
	// Newest returns the newest Moment of each node; nil before the first reading. It never goes back to an older one.
	Newest() *insight.Fleet
	// Latest is Newest plus readings made on demand since, for pages.
	Latest() *insight.Fleet
	// Changes counts the changes of anything that pages show.
	Changes() uint64
	// Update returns the bytes of a node's newest [contract.Update], as the viewers of an audience get them; nil where there is none.
	Update(node string, audience auth.Audience) []byte
	// Serve answers /ws for a node, or for all if the name is empty. It closes a connection that it takes over, maybe after it has
	// returned.
	Serve(w http.ResponseWriter, r *http.Request, node string)
}

// A Still is a hub whose Moments stay as they are, and which has no viewers.
type Still struct{ Fleet *insight.Fleet }

// Newest implements [Hub].
func (s Still) Newest() *insight.Fleet { return s.Fleet }

// Latest implements [Hub].
func (s Still) Latest() *insight.Fleet { return s.Fleet }

// Changes implements [Hub].
func (Still) Changes() uint64 { return 0 }

// Update implements [Hub].
func (Still) Update(string, auth.Audience) []byte { return nil }

// Serve implements [Hub].
func (Still) Serve(w http.ResponseWriter, r *http.Request, _ string) { http.NotFound(w, r) }

// Settings are what a [Kit] is made of.
type Settings struct {
	Monitor contract.Monitor // what answers say of gpuwhy, to who sees its machine; see [Kit.MonitorFor]
	Hub     Hub
	// Live updates the pages that viewers have open; nil if pages don't update.
	Live *live.Feed
	Address
	Clock clock.Clock
	Log   *slog.Logger
}

// A Kit is what the routes of all rooms are made with: it knows the newest Moments and which of them a request is about, and caches
// the answers made from them. It is made before the rooms.
type Kit struct {
	Settings // the base path without a slash at its end

	started time.Duration // by the clock

	mu      sync.Mutex
	answers map[view]*Answers // the newest; requests name nodes that there are

	seeing sync.Mutex
	seen   map[auth.Audience][]sighted // what limited audiences see of the last fleets
}

// A sighted is a fleet as an audience sees it.
type sighted struct{ whole, seen *insight.Fleet }

// mostSighted is how many fleets are remembered for an audience: the newest, and that with readings on demand. mostAudiences is for how
// many audiences.
const mostSighted, mostAudiences = 2, 256

// NewKit makes a kit.
func NewKit(s Settings) *Kit {
	s.BasePath = strings.TrimRight(s.BasePath, "/")
	return &Kit{Settings: s, answers: map[view]*Answers{}, seen: map[auth.Audience][]sighted{}, started: s.Clock.Elapsed()}
}

// Uptime is for how long there is the kit, and with it the program.
func (k *Kit) Uptime() time.Duration { return k.Clock.Elapsed() - k.started }

// Root is where all addresses are, with a slash at its end.
func (k *Kit) Root() string { return k.BasePath + "/" }

type nodeKey struct{}

// Node is the node that a request is about, empty for all of them.
func Node(r *http.Request) string {
	name, _ := r.Context().Value(nodeKey{}).(string)
	return name
}

// Base is where the pages begin that are about what the request is about, without a slash at its end.
func (k *Kit) Base(r *http.Request) string {
	if name := Node(r); name != "" {
		return k.BasePath + "/node/" + url.PathEscape(name)
	}
	return k.BasePath
}

// audience is who asks in a context; nobody where it has no principal.
func audience(ctx context.Context) auth.Audience {
	who, _ := auth.FromContext(ctx)
	return who.Audience
}

// SeesAll reports whether who asks may see all machines. What can't be told for some of them alone is refused to others with
// [ErrNotAll].
func SeesAll(ctx context.Context) bool { return audience(ctx).SeesAll() }

// ErrNotAll refuses what is about all machines to who may see only some.
var ErrNotAll = Refuse(http.StatusForbidden, "this is about all machines, and you may see only some of them", "ask the person who runs gpuwhy")

// Commands says whose command lines somebody sees who asks.
func Commands(ctx context.Context) auth.Commands { return audience(ctx).Commands() }

// Sees reports whether who asks may see a node. Everything that is told of a node goes through it, or through [Kit.Seen].
func (k *Kit) Sees(ctx context.Context, node string) bool {
	a := audience(ctx)
	return a.SeesAll() || a.Sees(k.Hub.Newest().Machine(node))
}

// Known returns what gpuwhy says of itself to an audience: without the name of a machine that the audience does not see.
func (k *Kit) Known(a auth.Audience, m contract.Monitor) contract.Monitor {
	if !a.SeesAll() && !a.Sees(k.Hub.Newest().Machine(m.Node)) {
		m.Node = ""
	}
	return m
}

// MonitorFor is what gpuwhy says of itself to somebody who asks.
func (k *Kit) MonitorFor(ctx context.Context) contract.Monitor {
	return k.Known(audience(ctx), k.Monitor)
}

// Seen returns a fleet as somebody sees it who asks: always the same for the same fleet. It is nil where f is.
func (k *Kit) Seen(ctx context.Context, f *insight.Fleet) *insight.Fleet {
	a := audience(ctx)
	if a == auth.Everything || f == nil {
		return f
	}
	k.seeing.Lock()
	defer k.seeing.Unlock()
	for _, s := range k.seen[a] {
		if s.whole == f {
			return s.seen
		}
	}
	if len(k.seen) >= mostAudiences {
		clear(k.seen)
	}
	last := k.seen[a]
	if len(last) == mostSighted {
		last = slices.Delete(last, 0, 1)
	}
	s := sighted{f, f.Seen(a)}
	k.seen[a] = append(last, s)
	return s.seen
}

// Fleet has the newest Moments that somebody sees who asks; nil before the first reading.
func (k *Kit) Fleet(ctx context.Context) *insight.Fleet { return k.Seen(ctx, k.Hub.Newest()) }

// Newest has the newest Moments that a request is about; nil before the first reading.
func (k *Kit) Newest(r *http.Request) *insight.Fleet { return narrow(r, k.Fleet(r.Context())) }

// Latest is Newest plus readings made on demand since, for pages.
func (k *Kit) Latest(r *http.Request) *insight.Fleet {
	return narrow(r, k.Seen(r.Context(), k.Hub.Latest()))
}

// narrow returns the fleet, or the one node of it that the request is about.
func narrow(r *http.Request, f *insight.Fleet) *insight.Fleet {
	if node := Node(r); node != "" {
		if m, ok := f.Node(node); ok {
			return m.Alone()
		}
	}
	return f
}

// errSeesNone refuses who may see none of the machines. No later reading changes that.
var errSeesNone = Refuse(http.StatusForbidden, strings.ToLower(explain.NoMachineSeen[:1])+explain.NoMachineSeen[1:], explain.AskWhichMachines)

// mostRetry is the longest time in Retry-After: gpuwhy finds a driver that soon.
const mostRetry = 30 * time.Second

// Readable returns an error if no GPU can be read, or none may be seen.
func (k *Kit) Readable(f *insight.Fleet) error {
	nodes := f.Nodes()
	for range nodes.Devices() {
		return nil
	}
	if f.Unseen() {
		return errSeesNone
	}
	e := Refuse(http.StatusServiceUnavailable, "no GPU can be read", contract.Reason(nodes))
	if len(nodes) == 0 {
		e.advice = gpu.Advice{What: "the first reading is still in progress", Try: "try again in a few seconds"}
	}
	wait := max(1, min(k.Monitor.Of(f).Interval, mostRetry).Seconds())
	return e.RetryAfter(strconv.Itoa(int(math.Ceil(wait))))
}

// OnceRead answers once there is a reading, or the verdict that there can be none.
func (k *Kit) OnceRead(answer Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if f := k.Hub.Newest(); f == nil {
			return k.Readable(f)
		}
		return answer(w, r)
	}
}

// Named finds the device in a request's path, which has the parameter id.
func (k *Kit) Named(f *insight.Fleet, r *http.Request) (insight.Part, error) {
	id, err := ParseID(r.PathValue("id"))
	if err != nil {
		return insight.Part{}, err
	}
	if err := k.Readable(f); err != nil {
		return insight.Part{}, err
	}
	return id.Find(f)
}

// Answers caches the answers made from the newest Moments of all nodes, or of one.
type Answers struct {
	Fleet *insight.Fleet // nil before the first reading

	kit  *Kit
	who  auth.Audience
	made lazy.Map[answerKey, *body]
}

// An answerKey is a route, and what tells apart its answers about the same Moments.
type answerKey struct {
	route string
	what  any
}

// A view is the part of the newest Moments that a request is about, for those who may see so much.
type view struct {
	node     string // empty for all nodes
	audience auth.Audience
}

func newView(r *http.Request) view { return view{Node(r), auth.FromRequest(r).Audience} }

// mostAnswers is for how many nodes and audiences answers are remembered. A hub has at most 20,000 nodes.
const mostAnswers = 50_000

// Answers are those of the newest Moments that a request is about. It asks for them under the lock, so that no older answers come
// after newer ones.
func (k *Kit) Answers(r *http.Request) *Answers {
	k.mu.Lock()
	defer k.mu.Unlock()
	f, key := k.Newest(r), newView(r)
	made := k.answers[key]
	if made == nil || made.Fleet != f {
		if made == nil && len(k.answers) >= mostAnswers { // of machines and audiences that may be gone
			clear(k.answers)
		}
		made = &Answers{kit: k, who: key.audience, Fleet: f}
		k.answers[key] = made
	}
	return made
}

// Monitor is what gpuwhy says of itself to who asks for those Moments.
func (a *Answers) Monitor() contract.Monitor { return a.Named().Of(a.Fleet) }

// Named is what gpuwhy says of itself to them, whatever the Moments are.
func (a *Answers) Named() contract.Monitor { return a.kit.Known(a.who, a.kit.Monitor) }

// Serve answers with what build makes once, for a request that was given to [Kit.Answers]. what tells apart several answers of its
// route. After a failure all answers are made anew.
func (a *Answers) Serve(w http.ResponseWriter, r *http.Request, what any, build func() any) error {
	return a.serve(w, r, cacheRevalidate, what, build)
}

// ServeUntilNext is Serve for answers that change with the next reading alone.
func (a *Answers) ServeUntilNext(w http.ResponseWriter, r *http.Request, what any, build func() any) error {
	return a.serve(w, r, a.kit.untilNext(a.Fleet), what, build)
}

func (a *Answers) serve(w http.ResponseWriter, r *http.Request, cache []string, what any, build func() any) error {
	b, err := a.made.Get(answerKey{r.Pattern, what}, func() (*body, error) { return jsonBody(build()) })
	if err != nil {
		a.kit.mu.Lock()
		delete(a.kit.answers, newView(r))
		a.kit.mu.Unlock()
	}
	return reply(w, r, cache, b, err)
}

// untilNext lets a client keep an answer about one node until the next reading is due, in whole
// seconds: not of several nodes or one that another program reads, and not if a source failed and may be tried before that.
func (k *Kit) untilNext(f *insight.Fleet) []string {
	nodes := f.Nodes()
	if len(nodes) != 1 || len(nodes[0].Failures) > 0 || len(nodes[0].Devices) == 0 || f.Moments()[0].Link.Remote {
		return cacheRevalidate
	}
	left := time.Until(nodes[0].Time.Add(k.Monitor.Interval))
	if left < time.Second || left > k.Monitor.Interval { // the clock was set back
		return cacheRevalidate
	}
	return []string{"private, max-age=" + strconv.Itoa(int(left/time.Second))}
}

// Derived answers with what build makes of the newest Moments, if there are any yet.
func Derived[T any](k *Kit, build func(contract.Monitor, *insight.Fleet) T) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		a := k.Answers(r)
		return a.ServeUntilNext(w, r, nil, func() any { return build(a.Monitor(), a.Fleet) })
	}
}

// Each answers for the device in a request's path with what build makes of it.
func Each[T any](k *Kit, build func(insight.Part) T) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		a := k.Answers(r)
		p, err := k.Named(a.Fleet, r)
		if err != nil {
			return err
		}
		return a.ServeUntilNext(w, r, p.Device, func() any { return build(p) })
	}
}

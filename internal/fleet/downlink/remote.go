package downlink

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/fleet/talk"
	"github.com/gpuwhy/gpuwhy/internal/fleet/wire"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

const (
	// slack is how much clocks may differ before people are told. It is more than a message takes.
	slack = 2 * time.Second
	// ahead is how far in the future a message may be dated. After such a message, the node's later ones would seem old.
	ahead = 10 * time.Minute
	// late is how long after two intervals a message may arrive before its node counts as silent.
	late = 2 * time.Second
	// keptFor is the greatest age of a sending node's whole state in NATS: it is rewritten every half minute.
	keptFor = 35 * time.Second
	// underWay is how long messages of a removed node may still arrive.
	underWay = 10 * time.Second
	// mostEach is how many messages of a node are read per second, and mostAtOnce how many at once. The shortest interval is a
	// quarter of a second.
	mostEach   = 20
	mostAtOnce = 40
	// stepBack is how much older than the one before a message may be that took another way. An older one means that the node's
	// clock was set back.
	stepBack = 10 * time.Second
	// longestInterval bounds the interval that a node may report.
	longestInterval = time.Hour
	// unsaidInterval is the assumed interval of a node that does not report it.
	unsaidInterval = 10 * time.Second
)

// A remote is a node that another program reads.
type remote struct {
	name string

	mu       sync.Mutex // held while a message is decoded; never with the lock of the Downlink before it
	decoders [2]run
	limit    *rate.Limiter

	// The lock of the Downlink guards what follows.
	hello   wire.Hello
	moment  *insight.Moment // nil: nothing of it could be read yet
	report  *alert.Report
	heard   time.Duration // when something came last, as elapsed time
	heardAt time.Time     // the same, by this machine's clock
	read    time.Time     // when it was read last, as near as this machine's clock can say
	unsure  time.Duration // until when it is waited for news of a node of which only a kept state is known, as elapsed time; 0: not
	why     gpu.Advice    // what was said last of its silence
	silent  time.Time     // since when nothing comes; zero: something does
	ended   bool          // its program said that it ends
	offset  time.Duration // by how much its clock is ahead
	other   string        // the program that sent before this one, or beside it
	clash   time.Duration // when both sent last, as elapsed time; 0: never
	wrong   error         // why its last message could not be taken; nil where it could
	told    string        // what of that stands in the log
	asked   time.Duration // when it was asked for the whole last
	past    bool          // its recent past was asked for since it came
	devices []string      // its UUIDs
}

// remote returns what is known about a node. A removed node returns once its state is stored again.
func (d *Downlink) remote(name string, kept bool) *remote {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.nodes[name]
	if removedAt, removed := d.removed[name]; removed {
		if !kept && d.Clock.Elapsed()-removedAt < underWay {
			return nil
		}
		delete(d.removed, name)
	}
	if r == nil {
		if len(d.nodes) >= MostNodes {
			d.full++
			return nil
		}
		r = &remote{name: name, limit: rate.NewLimiter(mostEach, mostAtOnce)}
		d.nodes[name] = r
	}
	return r
}

// A run has what is known about one run of the program that reads a node, so that the states of two programs with the same name don't mix.
type run struct {
	instance string
	decoder  *wire.Decoder
}

// decode reads a message of the node. The caller holds its lock.
func (r *remote) decode(message []byte, current string, packers *wire.Packers, texts *gpu.Shared) (*wire.State, error) {
	instance, err := wire.InstanceOf(message)
	if err != nil {
		return nil, err
	}
	for i := range r.decoders {
		if r.decoders[i].instance == instance && r.decoders[i].decoder != nil {
			return r.decoders[i].decoder.Decode(message)
		}
	}
	fresh := run{instance, wire.NewDecoder(r.name, packers, texts)}
	state, err := fresh.decoder.Decode(message)
	if err == nil {
		slot := 0
		if r.decoders[0].instance == current {
			slot = 1
		}
		r.decoders[slot] = fresh
	}
	return state, err
}

// errNoAddress is why all messages of a node are refused.
var errNoAddress = errors.New("the machine's name can't be used in a page's address")

// errTooMany is why a message is skipped.
var errTooMany = errors.New("the machine sends too many messages")

// receive handles a message about a node: one that has just arrived, or one that was stored at a given time.
func (d *Downlink) receive(name string, message []byte, written time.Time) {
	if d.Own(name) {
		return
	}
	if !insight.Addressable(name) {
		d.refuse(name, errNoAddress)
		return
	}
	r := d.remote(name, !written.IsZero())
	if r == nil {
		return
	}
	if written.IsZero() && !r.limit.AllowN(d.Clock.Now(), 1) { // none shall hold up the others
		d.refuse(name, errTooMany)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	d.mu.Lock()
	current := r.hello.Instance
	d.mu.Unlock()
	state, err := r.decode(message, current, &d.packers, &d.texts)
	switch {
	case errors.Is(err, wire.ErrNoBase):
		d.askWhole(r)
		return
	case errors.Is(err, wire.ErrLate):
		return // a newer one has come by another way
	case err != nil:
		d.refuseOf(r, err)
		return
	}
	d.take(r, state, written)
}

// take takes over the state in a message.
func (d *Downlink) take(r *remote, s *wire.State, written time.Time) {
	now, elapsed := d.Clock.Now(), d.Clock.Elapsed()
	came := now
	if !written.IsZero() && written.Before(now) {
		came = written
	}
	offset := s.Sent.Sub(came)
	if offset > ahead {
		d.refuseOf(r, fmt.Errorf("its messages are dated in the future: its clock is %s ahead", offset.Round(time.Second)))
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.nodes[r.name] != r || d.rival(r, s, elapsed) { // it was taken out meanwhile, or is shown of another program
		return
	}
	if back := r.hello.Sent.Sub(s.Sent); r.moment != nil && s.Instance == r.hello.Instance && back > 0 && back < stepBack {
		return // a newer one has come by another way
	}
	if !written.IsZero() && r.moment != nil && s.Instance == r.hello.Instance && s.Sent.Before(r.hello.Sent) {
		return // what is kept is older than what came
	}
	first, restarted := r.moment == nil, s.Instance != r.hello.Instance
	r.hello, r.wrong, r.told = s.Hello, nil, ""
	r.hello.Interval = min(max(cmp.Or(s.Interval, unsaidInterval), 100*time.Millisecond), longestInterval)
	age := now.Sub(came)
	if first || restarted {
		r.heard, r.heardAt = elapsed-age, came
	} else {
		r.heard, r.heardAt = max(r.heard, elapsed-age), later(r.heardAt, came)
	}
	r.silent, r.unsure = time.Time{}, 0
	r.ended = string(s.Extra[talk.Ended]) == "true"
	if restarted || offset.Abs() < r.offset.Abs() || offset.Abs() > r.offset.Abs()+slack {
		r.offset = offset
	}
	r.read = s.Moment.Snapshot.Time
	if r.offset.Abs() > slack {
		r.read = r.read.Add(-r.offset)
	}
	if r.read.After(came) {
		r.read = came
	}
	// It is unknown whether such a node still sends. The page waits for its next message rather than show something that may be wrong.
	if first && !r.ended && age < keptFor && r.overdue(elapsed) {
		r.unsure = elapsed + 2*r.hello.Interval + late
	}
	if written.IsZero() {
		delete(d.reads, r.name)
	}
	place := s.Moment.Place
	r.moment = s.Moment.At(place, insight.Link{})
	if text := s.Extra[talk.Alerts]; text != nil {
		report, err := talk.UnmarshalReport(text)
		if err == nil {
			err = ofNode(&report, r.name)
		}
		if err == nil {
			r.report = &report
		} else {
			d.refused[r.name]++
		}
	}
	d.own(r)
	d.silence(r, elapsed)
	d.soon(r)
	if r.silent.IsZero() && !r.past {
		r.past, d.came = true, append(d.came, r.name)
		select {
		case d.some <- struct{}{}:
		default:
		}
	}
}

// ofNode returns an error if a report is about another node than the one that sent it.
func ofNode(report *alert.Report, node string) error {
	for i := range report.Standing {
		if owner := report.Standing[i].Device.Node; owner != node {
			return fmt.Errorf("an alert is about another node, %.64q", owner)
		}
	}
	for i := range report.Silences {
		if x := &report.Silences[i]; !x.Covers(node) {
			return fmt.Errorf("a silence is about another node, %.64q", x.Node)
		}
	}
	return nil
}

// rival reports whether a message is from a second program with the node's name, and must be ignored: the program that
// started first is shown while it sends. A restarted program is not a rival, since the earlier one has stopped sending.
func (d *Downlink) rival(r *remote, s *wire.State, elapsed time.Duration) bool {
	switch {
	case r.moment == nil || s.Instance == r.hello.Instance:
		return false
	case s.Instance == r.other && s.Sent.Before(r.hello.Started):
		return true // the last of a program that was ended
	case s.Instance == r.other:
		r.clash = elapsed
	}
	if d.clashes(r, elapsed) && !r.overdue(elapsed) && s.Started.After(r.hello.Started) {
		r.other = s.Instance
		return true
	}
	r.other = r.hello.Instance
	return false
}

// clashes reports whether two programs have recently sent as the node.
func (d *Downlink) clashes(r *remote, elapsed time.Duration) bool {
	return r.clash > 0 && elapsed-r.clash < time.Minute
}

// overdue reports whether a message of the node is overdue.
func (r *remote) overdue(elapsed time.Duration) bool {
	return r.ended || elapsed-r.heard > 2*r.hello.Interval+late
}

// own records a node's devices, to recognize a machine that returns under another name.
func (d *Downlink) own(r *remote) {
	devices := r.moment.Snapshot.Devices
	same := len(devices) == len(r.devices)
	for i := range devices {
		same = same && devices[i].UUID == r.devices[i]
	}
	if same {
		return
	}
	d.disown(r)
	r.devices = make([]string, len(devices))
	for i := range devices {
		r.devices[i] = devices[i].UUID
		if r.moment.Snapshot.Kind() == gpu.Live {
			d.owners[devices[i].UUID] = append(d.owners[devices[i].UUID], r.name)
		}
	}
}

func (d *Downlink) disown(r *remote) {
	for _, uuid := range r.devices {
		if left := slices.DeleteFunc(d.owners[uuid], func(name string) bool { return name == r.name }); len(left) > 0 {
			d.owners[uuid] = left
		} else {
			delete(d.owners, uuid)
		}
	}
	r.devices = nil
}

// silence decides whether a node is silent now.
func (d *Downlink) silence(r *remote, elapsed time.Duration) (changed bool) {
	if r.moment == nil && r.wrong == nil {
		return false
	}
	was := !r.silent.IsZero()
	is := r.overdue(elapsed)
	switch {
	case elapsed < r.unsure:
		return false
	case is && !was:
		r.silent, r.past = later(cmp.Or(r.read, r.heardAt), d.reads[r.name]), false
	case !is:
		r.silent = time.Time{}
	}
	return is != was
}

// later is the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// link returns how the node's Moments reach this hub.
func (d *Downlink) link(r *remote, now time.Time) insight.Link {
	l := insight.Link{Remote: true, Version: r.hello.Version, Every: r.hello.Interval, Sent: r.hello.Sent, At: now, Silent: r.silent}
	if !r.silent.IsZero() {
		r.why = d.why(r, d.Bus.State())
		l.Why = r.why
	}
	if off := r.offset; off.Abs() > slack {
		how := "ahead of"
		if off < 0 {
			how = "behind"
		}
		l.Notes = append(l.Notes, gpu.Advice{
			What: fmt.Sprintf("its clock is %s %s this machine's", off.Abs().Round(time.Second), how),
			Try:  "set both clocks with NTP, for example with chrony or systemd-timesyncd: this node's times are as wrong as its clock",
		})
	}
	if d.clashes(r, d.Clock.Elapsed()) {
		l.Notes = append(l.Notes, gpu.Advice{
			What: "two programs publish as " + r.name + "; the one that started first is shown",
			Try:  "give each machine its own name with --node, and its own credentials",
		})
	}
	if r.wrong != nil {
		l.Notes = append(l.Notes, adviceOf(r.wrong))
	}
	for _, other := range d.alsoIn(r) {
		l.Notes = append(l.Notes, gpu.Advice{
			What: "its GPUs are also listed by " + other,
			Try:  "if the machine has a new name, remove the old one with: gpuwhy fleet remove " + other,
		})
	}
	return l
}

// alsoIn returns other nodes that list one of a node's devices.
func (d *Downlink) alsoIn(r *remote) (others []string) {
	for _, uuid := range r.devices {
		for _, name := range d.owners[uuid] {
			if name != r.name && !slices.Contains(others, name) {
				others = append(others, name)
			}
		}
	}
	slices.Sort(others)
	return others[:min(len(others), 3)]
}

// why returns why a node is silent.
func (d *Downlink) why(r *remote, state bus.State) gpu.Advice {
	switch {
	case !state.Connected:
		a := gpu.Advice{What: "this hub is not connected to the fleet's NATS servers"}
		if state.Err != nil {
			a.What, a.Try = a.What+": "+state.Err.What, state.Err.Try
		}
		return a
	case r.ended:
		return gpu.Advice{What: "gpuwhy on that machine was stopped", Try: "start it again there, or remove the machine with: gpuwhy fleet remove " + r.name}
	case r.wrong != nil:
		a := adviceOf(r.wrong)
		a.What = "nothing has arrived from that machine since its last message, which was refused: " + a.What
		return a
	default:
		return gpu.Advice{
			What: "nothing arrives from that machine",
			Try:  "check that it runs and reaches the fleet's NATS servers, and that gpuwhy runs there",
		}
	}
}

func adviceOf(err error) gpu.Advice {
	if a, ok := errors.AsType[*gpu.Advice](err); ok {
		return *a
	}
	return gpu.Advice{What: err.Error(), Try: "look at gpuwhy's log on that machine"}
}

// refuse counts a refused message of a node.
func (d *Downlink) refuse(node string, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refused[node] == 0 && errors.Is(why, errNoAddress) { // of others, refuseOf tells
		d.Log.Warn("refusing messages from a machine", "node", node, "err", why)
	}
	if len(d.refused) < MostNodes || d.refused[node] > 0 {
		d.refused[node]++
	}
	d.Log.Debug("refusing a message of the fleet", "node", node, "err", why)
}

// refuseOf counts a refused message, and shows why at the node. It logs that once.
func (d *Downlink) refuseOf(r *remote, why error) {
	d.refuse(r.name, why)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.nodes[r.name] != r {
		return // it was taken out meanwhile
	}
	if errors.Is(why, wire.ErrUnreadable) && r.moment == nil { // whoever it is of, it is no gpuwhy that people should see
		delete(d.nodes, r.name)
		return
	}
	now, elapsed := d.Clock.Now(), d.Clock.Elapsed()
	kind := strings.TrimRight(why.Error(), "0123456789.: ")
	if a, ok := errors.AsType[*gpu.Advice](why); ok {
		kind = a.What
	}
	r.wrong = why
	if r.told == "" {
		r.told = kind
		d.Log.Warn("refusing messages from a machine", "node", r.name, "err", why)
	}
	if r.moment == nil { // nobody knows more of it than that
		r.heard, r.heardAt = elapsed, now
		r.moment = insight.Of(&gpu.Snapshot{
			Node: r.name, Time: now.UTC(), Source: gpu.SourceMixed, Failures: []gpu.Failure{{Source: "fleet", Since: now.UTC(), Advice: adviceOf(why)}},
		})
	}
	d.silence(r, elapsed)
	d.soon(r)
}

// soon schedules a node to be handed on. The caller holds mu.
func (d *Downlink) soon(r *remote) {
	d.pending[r.name] = r
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// remove removes a node.
func (d *Downlink) remove(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	elapsed := d.Clock.Elapsed()
	maps.DeleteFunc(d.removed, func(_ string, removedAt time.Duration) bool { return elapsed-removedAt >= underWay })
	d.removed[name] = elapsed
	r := d.nodes[name]
	if r == nil {
		return
	}
	d.disown(r)
	delete(d.nodes, name)
	delete(d.pending, name)
	delete(d.refused, name)
	d.gone = append(d.gone, name)
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// handOn hands on news at most ten times a second, and checks every second which nodes have become silent.
func (d *Downlink) handOn(ctx context.Context) {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			d.look()
		case <-d.wake:
		}
		d.deliver()
		t := time.NewTimer(together)
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// look finds nodes that have become silent, and silent nodes with a new reason.
func (d *Downlink) look() {
	state := d.Bus.State()
	d.mu.Lock()
	defer d.mu.Unlock()
	elapsed := d.Clock.Elapsed()
	for _, r := range d.nodes {
		changed := d.silence(r, elapsed)
		if !changed && !r.silent.IsZero() {
			now := d.why(r, state)
			changed = now.What != r.why.What || now.Try != r.why.Try
		}
		if changed {
			d.pending[r.name] = r
		}
	}
}

// deliver hands on the news.
func (d *Downlink) deliver() {
	d.mu.Lock()
	var moments []*insight.Moment
	reports := map[string]*alert.Report{}
	now, elapsed := d.Clock.Now(), d.Clock.Elapsed()
	for _, r := range d.pending {
		if elapsed < r.unsure {
			continue
		}
		if r.moment != nil {
			moments = append(moments, r.moment.At(r.moment.Place, d.link(r, now)))
		}
		if r.report != nil {
			reports[r.name] = r.report
		}
	}
	gone := d.gone
	clear(d.pending)
	d.gone = nil
	d.mu.Unlock()
	d.handing.Lock()
	defer d.handing.Unlock()
	for _, name := range gone {
		d.Gone(name)
	}
	if len(moments) > 0 {
		slices.SortFunc(moments, func(a, b *insight.Moment) int { return cmp.Compare(a.Snapshot.Node, b.Snapshot.Node) })
		d.Take(moments)
	}
	if len(reports) > 0 {
		d.Report(reports)
	}
}

// askWhole asks a node for its whole state, which all hubs then receive.
func (d *Downlink) askWhole(r *remote) {
	d.mu.Lock()
	elapsed := d.Clock.Elapsed()
	soon := r.asked != 0 && elapsed-r.asked < asksWhole
	if !soon {
		r.asked = elapsed
	}
	d.mu.Unlock()
	if soon {
		return
	}
	text, err := json.Marshal(action.Question{Ask: talk.Whole, Asker: &talk.Self})
	if err == nil {
		err = d.Bus.Conn().PublishRequest(bus.Ask(r.name), nats.NewInbox(), text) // nobody waits for that
	}
	if err != nil {
		d.Log.Debug("can't ask a machine for its whole state", "node", r.name, "err", err)
	}
}

// ask asks a node.
func (d *Downlink) ask(ctx context.Context, node string, q *action.Question) (a talk.Reply, err error) {
	text, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(ctx, talk.Deadline+time.Second)
	defer cancel()
	m, err := d.Bus.Conn().RequestMsgWithContext(ctx, &nats.Msg{Subject: bus.Ask(node), Data: text, Header: d.Signer.Sign(node, text, d.Clock.Now())})
	if err != nil {
		return a, &gpu.Advice{
			What: node + " does not answer", Try: "check that it runs and reaches the fleet's NATS servers, and that gpuwhy runs there", Err: err,
		}
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return a, fmt.Errorf("can't read the answer of %s: %w", node, err)
	}
	return a, a.Err()
}

// Has reports whether a node belongs to the fleet and is read by another program.
func (d *Downlink) Has(node string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nodes[node] != nil
}

// Awake returns the nodes of the fleet that are not silent, by name.
func (d *Downlink) Awake() (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, r := range d.nodes {
		if r.silent.IsZero() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Ask asks the program that reads a node to perform an action. It returns the Moment of a reading, or another result as JSON.
func (d *Downlink) Ask(ctx context.Context, node string, q *action.Question) (any, error) {
	a, err := d.ask(ctx, node, q)
	if err != nil || a.State == nil {
		return a.Outcome, err
	}
	s, err := wire.NewDecoder(node, &d.packers, &d.texts).Decode(a.State)
	if err != nil {
		d.refuse(node, err)
		return nil, fmt.Errorf("can't read the answer of %s: %w", node, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.nodes[node]
	if r == nil {
		return nil, &gpu.Advice{What: node + " is no longer part of the fleet"}
	}
	return s.Moment.At(s.Moment.Place, d.link(r, d.Clock.Now())), nil
}

// askPasts asks each new node for its recent past.
func (d *Downlink) askPasts(ctx context.Context) {
	var all errgroup.Group
	all.SetLimit(asked)
	defer func() { _ = all.Wait() }() // its functions return none
	for {
		select {
		case <-d.some:
		case <-ctx.Done():
			return
		}
		pause(ctx) // its Moment is taken in by then
		for ctx.Err() == nil {
			d.mu.Lock()
			if len(d.came) == 0 {
				d.came = nil
				d.mu.Unlock()
				break
			}
			node := d.came[0]
			d.came = d.came[1:]
			d.mu.Unlock()
			all.Go(func() error {
				if err := d.askPast(ctx, node); err != nil && ctx.Err() == nil {
					d.Log.Debug("can't get the recent past of a machine", "node", node, "err", err)
				}
				return nil
			})
			time.Sleep(mathrand.N(apart))
		}
	}
}

func (d *Downlink) askPast(ctx context.Context, node string) error {
	a, err := d.ask(ctx, node, &action.Question{Ask: talk.Recent, Asker: &talk.Self})
	if err != nil {
		return err
	}
	d.handing.Lock()
	defer d.handing.Unlock()
	if !d.Has(node) {
		return nil // it is no part of the fleet any more
	}
	if err := d.Past(node, a.Recent); err != nil {
		d.refuse(node, err)
		return err
	}
	return nil
}

//go:build linux

package capture

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/amd"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
	"github.com/gpuwhy/gpuwhy/sampler/recording"
	"github.com/gpuwhy/gpuwhy/sampler/replay"
	"github.com/gpuwhy/gpuwhy/sampler/smi"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunTests(m)) }

// secrets are texts on the made-up machine that no capture may contain.
var secrets = []string{
	"wonderland", "alice", "1650522003820", "33333333-0535-4000-8000-000000000000", "caterpillar-app", "queen_of_hearts",
	"4c1a9f7e0b35d262", "croquet.py", "--password=flamingo", "tea-party", "mad-hatter-image", "dormouse", "turtle-ns", "/srv/jabberwocky",
	"wg-redqueen", "hare.service", "cheshire", "client-of-the-duchess", "692251001234",
}

// A stage is a machine that has a secret in every place.
type stage struct {
	*drmtest.Machine
	smi   *fakesmi.Machine
	cards []*drmtest.Card
}

func newStage(t *testing.T) *stage {
	s := &stage{Machine: drmtest.New(t), smi: fakesmi.New(t, "a100-mig-535")}
	xml := strings.Replace(s.smi.Read("query.xml"), "<process_name>", "<process_name>/home/alice/caterpillar-app</process_name><process_name>", 1)
	s.smi.Write("query.xml", xml)
	s.smi.Write("pmon", s.smi.Read("pmon")+"    1      51201     C    98    60     -     -     1   queen_of_hearts --password=flamingo\n")
	s.cards = append(s.cards, s.Load("radeon-rx-7900-xtx"))
	s.cards[0].Set(map[string]string{"serial_number": "692251001234\n"})
	info := "drm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t7\ndrm-client-name:\tclient-of-the-duchess\ndrm-memory-vram:\t65536 KiB\n"
	s.Open(2201, 10, "dri/renderD128", info)
	s.Write(filepath.Join(s.Proc, "2201/comm"), "cheshire\n")
	s.Write(filepath.Join(s.Proc, "2201/cmdline"), "cheshire\x00--password=flamingo\x00")
	return s
}

// reading is a snapshot with secrets.
func (s *stage) reading(t *testing.T, n int) *gpu.Snapshot {
	log := slog.New(slog.DiscardHandler)
	source := amd.New(amd.Config{SysfsRoot: s.Sysfs, ProcRoot: s.Proc, Deadline: 10 * time.Second, Clock: clockwork.NewFakeClock(), Log: log})
	defer source.Close()
	snap, err := source.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	snap.Seq, snap.Time, snap.Node = uint64(n), time.Date(2026, 3, 14, 15, 9, n, 0, time.UTC), "wonderland"
	snap.Host = &gpu.Host{
		Hostname: "wonderland", OS: "Debian", Disks: []gpu.Disk{{Device: "/dev/sda1", Mount: "/srv/jabberwocky"}},
		Networks: []gpu.Interface{{Name: "wg-redqueen"}, {Name: "eth0"}},
	}
	other := snap.Devices[0]
	other.UUID, other.Source, other.Vendor, other.PCI = "GPU-33333333-0535-4000-8000-000000000000", gpu.SourceNvidiaSMI, gpu.NVIDIA, "0000:07:00.0"
	other.Serial = gpu.Of("1650522003820")
	snap.Devices = append(snap.Devices, other)
	for i := range snap.Devices {
		d := &snap.Devices[i]
		d.Node = "wonderland"
		d.Processes = gpu.Map(d.Processes, slices.Clone)
		for k := range d.Processes.Or(nil) {
			f := &d.Processes.Or(nil)[k].Facts
			f.Name, f.Program, f.User = gpu.Of("cheshire"), gpu.Of("croquet.py"), gpu.Of("alice")
			f.Command = gpu.Of("python3 croquet.py --password=flamingo")
			f.Container = gpu.Of(gpu.Container{ID: "tea-party", Name: gpu.Of("tea-party"), Image: gpu.Of("mad-hatter-image")})
			f.Pod = gpu.Of(gpu.Pod{UID: "dormouse", Name: gpu.Of("dormouse"), Namespace: gpu.Of("turtle-ns")})
			f.Unit = gpu.Of(gpu.Unit{Name: "hare.service", Slice: "user.slice"})
		}
	}
	snap.Failures = []gpu.Failure{{Source: gpu.SourceNVML, Advice: gpu.Advice{
		What: "wonderland has no library", Try: "look into /home/alice/lib", Err: errors.New("open /home/alice/lib: cheshire has it"),
	}}}
	return snap
}

// options returns the options for a capture of so many readings.
func (s *stage) options(t *testing.T, ctx context.Context, end func(), readings int) Options {
	n := 0
	return Options{
		Dir: filepath.Join(t.TempDir(), "capture"), Every: time.Second, Version: "1.2.3", Sources: []string{"auto"},
		Vendors: []gpu.Vendor{gpu.AMD, gpu.Intel, gpu.NVIDIA}, SysfsRoot: s.Sysfs, ProcRoot: s.Proc,
		NvidiaSMI: smi.Program(s.smi.Program()), User: "alice", Host: "wonderland", Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		rawTime: testkit.Patience,
		Next: func(context.Context) (*gpu.Snapshot, error) {
			if n++; n > readings {
				end()
				return nil, context.Cause(ctx)
			}
			return s.reading(t, n), nil
		},
	}
}

func (s *stage) record(t *testing.T, readings int, change func(*Options)) (*Summary, string) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	o := s.options(t, ctx, end, readings)
	if change != nil {
		change(&o)
	}
	sum, err := Record(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return sum, o.Dir
}

// text returns a whole capture, with the names of its files.
func text(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(file)
		all.WriteString("\n### " + strings.TrimPrefix(file, dir) + "\n" + string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// A capture has none of the machine's secrets, unless names are asked for.
func TestNoSecrets(t *testing.T) {
	sum, dir := newStage(t).record(t, 2, nil)
	all := text(t, dir)
	for _, secret := range secrets {
		if i := strings.Index(strings.ToLower(all), strings.ToLower(secret)); i >= 0 {
			t.Errorf("%q is in it: …%s…", secret, all[max(i-200, 0):min(i+100, len(all))])
		}
	}
	if !slices.Contains(sum.Masked, "users: 1") || !slices.Contains(sum.Masked, "hosts: 1") || len(sum.Masked) < 10 {
		t.Errorf("said to be masked: %q", sum.Masked)
	}
	for _, part := range []string{
		"### /capture.yaml", "### /readings.jsonl", "### /raw/sysfs.txt", "### /raw/proc.txt", "### /raw/nvidia-smi/query.xml",
		"### /raw/nvidia-smi/pmon", "### /raw/nvidia-smi/commands.txt", "drm-client-name:\tprocess-", "gpu_metrics (hex)",
		"/dev/dri/renderD128", "<process_name>process-", "version: 1.2.3"[9:], "pid>48211<",
	} {
		if !strings.Contains(all, part) {
			t.Errorf("%q is not in it", part)
		}
	}
	if strings.Contains(all, "cmdline") {
		t.Error("a file with a command line is in it")
	}
	_, dir = newStage(t).record(t, 1, func(o *Options) { o.Names = true })
	all = text(t, dir)
	for _, secret := range secrets {
		if !strings.Contains(all, secret) && secret != "flamingo" {
			t.Errorf("%q is not in a capture with names", secret)
		}
	}
}

// Readings are played as they were, except for names. The sources can read the raw files.
func TestWhatIsRecordedIsPlayed(t *testing.T) {
	s := newStage(t)
	sum, dir := s.record(t, 3, func(o *Options) { o.Names = true })
	if sum.Readings != 3 || sum.Public() || sum.Ended.Before(sum.Began) {
		t.Errorf("%+v", sum)
	}
	c, err := recording.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	lines := func(snap *gpu.Snapshot) []string {
		snap = new(*snap)
		for i := range snap.Devices {
			snap.Devices[i].Since, snap.Devices[i].SampledAt = time.Time{}, time.Time{}
		}
		line, err := gpu.MarshalRecord(snap)
		if err != nil {
			t.Fatal(err)
		}
		return strings.SplitAfter(string(line), ",")
	}
	for i := range 3 {
		if diff := cmp.Diff(lines(s.reading(t, i+1)), lines(c.Reading(i))); diff != "" {
			t.Error(diff)
		}
	}
	if err := os.Remove(filepath.Join(dir, recording.ReadingsFile)); err != nil {
		t.Fatal(err)
	}
	source, err := replay.Open(dir, replay.Config{
		Interval: 20 * time.Millisecond, Deadline: 10 * time.Second, Clock: clockwork.NewFakeClock(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	snap, err := source.Read(t.Context())
	if err != nil || len(snap.Devices) != 3 {
		t.Fatalf("%+v, %v", snap, err)
	}
	want := s.reading(t, 1).Devices[0]
	d, ok := snap.Device(want.UUID)
	if !ok {
		t.Fatalf("no card %s", want.UUID)
	}
	if diff := cmp.Diff(want.Thermal.GPU.String()+want.Power.Draw.String()+want.Fans.Commanded().String(),
		d.Thermal.GPU.String()+d.Power.Draw.String()+d.Fans.Commanded().String()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want.DriverVersion.String(), d.DriverVersion.String()); diff != "" {
		t.Error(diff)
	}
}

// A sleeping card stays asleep.
func TestSleepingCards(t *testing.T) {
	s := newStage(t)
	s.smi.PlugIn()
	s.smi.Sleep(s.smi.Addresses()[0], true)
	s.cards[0].Sleep()
	first := &gpu.Snapshot{Time: time.Now(), Devices: []gpu.Device{{Identity: gpu.Identity{Vendor: gpu.NVIDIA}, State: gpu.StateAsleep}}}
	opened := drmtest.Watch(t, s.cards[0].Dir)
	done := false
	sum, dir := s.record(t, 1, func(o *Options) {
		o.SysfsRoot = s.Sysfs
		next := o.Next
		o.Next = func(ctx context.Context) (*gpu.Snapshot, error) {
			if done {
				_, _ = next(ctx) // counts
				return next(ctx)
			}
			done = true
			return first, nil
		}
		// Both vendors' cards are of one machine.
		if err := os.CopyFS(filepath.Join(s.Sysfs, "bus/pci/drivers/nvidia"), os.DirFS(filepath.Join(s.smi.SysfsRoot, "bus/pci/devices"))); err != nil {
			t.Fatal(err)
		}
		for _, address := range s.smi.Addresses() {
			original := filepath.Join(s.smi.SysfsRoot, "bus/pci/devices", address)
			if err := os.Symlink(original, filepath.Join(s.Sysfs, "bus/pci/devices", address)); err != nil {
				t.Fatal(err)
			}
		}
	})
	if i := slices.IndexFunc(sum.Missing, func(m string) bool { return strings.Contains(m, "would wake the GPU at "+s.smi.Addresses()[0]) }); i < 0 {
		t.Errorf("missing are %q", sum.Missing)
	}
	if s.smi.Count("start") > 0 {
		t.Errorf("nvidia-smi ran: %q", s.smi.Log())
	}
	for _, file := range opened() {
		switch filepath.Base(file) {
		case "runtime_status", "control", "vendor", "device", "revision", "subsystem_vendor", "subsystem_device", "class", "drm", ".", "power":
		default:
			t.Errorf("%s of a card that sleeps was opened", file)
		}
	}
	if all := text(t, dir); !strings.Contains(all, "runtime_status\nsuspended") || strings.Contains(all, "gpu_metrics") {
		t.Errorf("the card is recorded as\n%s", all)
	}
}

// A folder that is not empty is refused, and nothing in it changes.
func TestFullFolder(t *testing.T) {
	s := newStage(t)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	o := s.options(t, ctx, end, 1)
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.Dir, "notes"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Record(ctx, o)
	advice, ok := errors.AsType[*gpu.Advice](err)
	if !ok || !strings.Contains(advice.What, "is not empty") || advice.Try == "" {
		t.Errorf("%v", err)
	}
	if entries, _ := os.ReadDir(o.Dir); len(entries) != 1 {
		t.Errorf("it has %v", entries)
	}
}

// A capture stops at its size limit, and is complete then.
func TestLimit(t *testing.T) {
	s := newStage(t)
	line, err := gpu.MarshalRecord(s.reading(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	sum, dir := s.record(t, 100, func(o *Options) { o.Most = int64(len(line)) * 5 / 2 })
	c, err := recording.Open(dir)
	if !sum.Full || err != nil || c.Len() != sum.Readings || c.Len() < 1 || c.Len() > 3 || len(c.Unread) > 0 {
		t.Errorf("%+v, %v, %d readings", sum, err, c.Len())
	}
}

// If nvidia-smi fails, the capture has its message.
func TestWhatFails(t *testing.T) {
	s := newStage(t)
	s.smi.Fault("fail 9 NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver, says alice.")
	sum, dir := s.record(t, 1, nil)
	missing := strings.Join(sum.Missing, "\n")
	if !strings.Contains(missing, "raw/nvidia-smi/query.xml: nvidia-smi -q: exit status 9") {
		t.Errorf("missing are %s", missing)
	}
	if all := text(t, dir); !strings.Contains(all, "couldn't communicate with the NVIDIA driver, says user-1.") {
		t.Errorf("not what it said: %s", all)
	}
}

//go:build linux && cgo

package nvml

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
)

// libraryPaths are tried in order: the system's loader, then containers, WSL and NixOS.
var libraryPaths = []string{
	"libnvidia-ml.so.1",
	"/usr/local/nvidia/lib64/libnvidia-ml.so.1",
	"/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1",
	"/usr/lib/wsl/lib/libnvidia-ml.so.1",
	"/run/opengl-driver/lib/libnvidia-ml.so.1",
}

// required are functions that every driver since 319 has.
var required = []string{
	"nvmlInit_v2",
	"nvmlShutdown",
	"nvmlErrorString",
	"nvmlDeviceGetCount_v2",
	"nvmlDeviceGetHandleByIndex_v2",
	"nvmlDeviceGetUUID",
	"nvmlDeviceGetName",
}

// library is the loaded library. It stays loaded for the life of the process.
type library struct {
	path   string
	api    nvml.Interface
	handle unsafe.Pointer
	log    *slog.Logger
	stuck  code // result of the last shutdown, if it failed

	functions sync.Map // looked up so far: string, *function
}

// A function is a function of the library, and how long its calls took.
type function struct {
	address unsafe.Pointer // nil: the library lacks it
	core    bool           // a working device answers one of these
	meter   gpu.Meter
}

func load(path string, log *slog.Logger) (*library, error) {
	paths := libraryPaths
	if path != "" {
		paths = []string{path}
	}
	var tried []error
	for _, p := range paths {
		handle, err := open(p)
		if err == nil {
			api := nvml.New(nvml.WithLibraryPath(p))
			l := &library{path: p, api: api, handle: handle, log: log}
			return l, l.check()
		}
		tried = append(tried, fmt.Errorf("%s: %w", p, err))
	}
	what := "NVIDIA's management library was not found: tried " + paths[0]
	if others := len(paths) - 1; others > 0 {
		what += fmt.Sprintf(" and %d places beside the loader's own", others)
	}
	return nil, &gpu.Advice{
		What: what,
		Try:  "install the NVIDIA driver, and check that nvidia-smi runs; in a container, start it with the NVIDIA runtime (--gpus all)",
		Err:  fmt.Errorf("%w: %w", gpu.ErrNoLibrary, errors.Join(tried...)),
	}
}

func (l *library) check() error {
	for _, name := range required {
		if l.function(name) == nil {
			return &gpu.Advice{
				What: l.path + " is not a usable NVIDIA management library: it lacks " + name,
				Try:  "reinstall the NVIDIA driver",
				Err:  gpu.ErrNoLibrary,
			}
		}
	}
	return nil
}

// function returns the address of a function; nil if the library lacks it.
func (l *library) function(symbol string) unsafe.Pointer { return l.lookUp(symbol).address }

// lookUp finds a function, once.
func (l *library) lookUp(symbol string) *function {
	if f, ok := l.functions.Load(symbol); ok {
		return f.(*function)
	}
	f, found := l.functions.LoadOrStore(symbol, &function{address: find(l.handle, symbol), core: core[symbol]})
	if f := f.(*function); f.address == nil && !found {
		l.log.Debug("the driver lacks a function", "function", symbol)
	}
	return f.(*function)
}

// costs returns how long the calls took, for each function that was called.
func (l *library) costs() (all []gpu.Cost) {
	l.functions.Range(func(name, f any) bool {
		if c := f.(*function).meter.Cost(gpu.SourceNVML, name.(string)); c.Count > 0 {
			all = append(all, c)
		}
		return true
	})
	return all
}

// invoke calls a method of the binding, unless the library lacks its function, and measures how long it takes.
func invoke[R, T any](l *library, symbol string, target R, call func(R) (T, nvml.Return)) (T, code) {
	return timed(l.lookUp(symbol), target, call)
}

func timed[R, T any](f *function, target R, call func(R) (T, nvml.Return)) (T, code) {
	if f.address == nil {
		var none T
		return none, functionNotFound
	}
	began := gpu.Clock()
	v, ret := call(target)
	f.meter.Since(began)
	return v, code(ret)
}

// turn is held while the library, one per process, is initialized or shut down.
var turn sync.Mutex

func (l *library) initialize() code {
	turn.Lock()
	defer turn.Unlock()
	_, c := invoke(l, "nvmlInit_v2", l.api, alone(nvml.Interface.Init))
	return c
}

// shutdown undoes one initialize. A failure is only logged, and not repeated.
func (l *library) shutdown() {
	turn.Lock()
	defer turn.Unlock()
	_, c := invoke(l, "nvmlShutdown", l.api, alone(nvml.Interface.Shutdown))
	if c != success && c != l.stuck {
		l.log.Warn("the driver's library did not shut down", "err", c)
	}
	l.stuck = c
}

func (l *library) driver() gpu.Driver {
	text := func(symbol string, call func(nvml.Interface) (string, nvml.Return)) gpu.Reading[string] {
		return versionOf(invoke(l, symbol, l.api, call))
	}
	cuda, c := invoke(l, "nvmlSystemGetCudaDriverVersion_v2", l.api, nvml.Interface.SystemGetCudaDriverVersion_v2)
	return gpu.Driver{
		Source:  gpu.SourceNVML,
		Version: text("nvmlSystemGetDriverVersion", nvml.Interface.SystemGetDriverVersion),
		Library: text("nvmlSystemGetNVMLVersion", nvml.Interface.SystemGetNVMLVersion),
		CUDA: converted(cuda, c, func(v int) gpu.Reading[string] {
			return gpu.Of(fmt.Sprintf("%d.%d", v/1000, v%1000/10))
		}),
	}
}

// textOf converts a text from the driver for people, since some texts aren't valid.
func textOf(s string, c code) gpu.Reading[string] {
	text, ok := nvidia.Text(s)
	return converted(text, c, func(s string) gpu.Reading[string] { return reported(ok, s) })
}

// versionOf converts a version, without what some drivers append to it.
func versionOf(s string, c code) gpu.Reading[string] {
	version, ok := nvidia.Version(s)
	return converted(version, c, func(s string) gpu.Reading[string] { return reported(ok, s) })
}

// The adapters below give the binding's methods the signature that invoke needs.

// alone adapts a method that returns only its code.
func alone[R any](f func(R) nvml.Return) func(R) (struct{}, nvml.Return) {
	return func(target R) (struct{}, nvml.Return) { return struct{}{}, f(target) }
}

// bind adapts a method with an argument.
func bind[R, A, T any](a A, f func(R, A) (T, nvml.Return)) func(R) (T, nvml.Return) {
	return func(target R) (T, nvml.Return) { return f(target, a) }
}

// first adapts a method with two results whose second is not needed.
func first[R, T, U any](f func(R) (T, U, nvml.Return)) func(R) (T, nvml.Return) {
	return func(target R) (T, nvml.Return) { v, _, ret := f(target); return v, ret }
}

// pair is two results of one method.
type pair[T, U any] struct {
	a T
	b U
}

// both adapts a method with two results.
func both[R, T, U any](f func(R) (T, U, nvml.Return)) func(R) (pair[T, U], nvml.Return) {
	return func(target R) (pair[T, U], nvml.Return) { a, b, ret := f(target); return pair[T, U]{a, b}, ret }
}

// blank is NVML's mark for an unknown 32-bit number.
const blank = math.MaxUint32

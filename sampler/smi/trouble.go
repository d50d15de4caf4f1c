package smi

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
	"github.com/gpuwhy/gpuwhy/sampler/perdevice"
)

// errEnded is the error for a command that ended but should not have.
var errEnded = errors.New("nvidia-smi ended")

// because returns a common advice with its cause.
func because(a gpu.Advice, errs ...error) *gpu.Advice {
	a.Err = errors.Join(errs...)
	return &a
}

// said returns a sentence of nvidia-smi as an error, for the log.
func said(s string) error { return errors.New("nvidia-smi: " + clean(s)) }

// misunderstood is the error for a program that prints only unknown lines, such as this one.
func misunderstood(line string) *gpu.Advice {
	return &gpu.Advice{
		What: "nvidia-smi prints output that gpuwhy does not understand" + quoting(line),
		Try:  "run nvidia-smi --query-gpu=index,uuid,name,pci.bus_id --format=csv by hand: it must print a row for each GPU; if it does, report these lines as a bug in gpuwhy",
		Err:  errors.Join(gpu.ErrNoDriver, errForeign),
	}
}

// errForeign is the error for output that is not nvidia-smi's.
var errForeign = errors.New("unknown output")

// quoting quotes the first non-empty line of a text; empty if there is none.
func quoting(text string) string {
	for line := range strings.Lines(text) {
		if line = clean(line); line != "" {
			return ": “" + line + "”"
		}
	}
	return ""
}

// failureOf translates the driver's words for an error of a whole device.
func failureOf(words string) *gpu.Advice {
	w := strings.ToLower(words)
	switch cause := said(words); {
	case strings.Contains(w, "is lost"), strings.Contains(w, "fallen off"):
		return because(nvidia.Lost, perdevice.ErrLost, gpu.ErrNoDriver, cause)
	case strings.Contains(w, "permission"):
		return because(nvidia.NotPermitted, gpu.ErrNotPermitted, cause)
	case strings.Contains(w, "reset"), strings.Contains(w, "requires restart"):
		return because(nvidia.ResetRequired, gpu.ErrNoDriver, cause)
	case strings.Contains(w, "power"):
		return because(nvidia.Underpowered, gpu.ErrNoDriver, cause)
	case strings.Contains(w, "timeout"):
		return because(nvidia.Timeout, gpu.ErrNotAnswering, cause)
	case strings.Contains(w, "mismatch"):
		return because(nvidia.VersionMismatch, gpu.ErrVersionMismatch, cause)
	case strings.Contains(w, "not loaded"):
		return notLoaded(cause)
	case strings.Contains(w, "unknown error"), strings.Contains(w, "operating system"):
		return because(nvidia.Unknown, gpu.ErrNoDriver, cause)
	default:
		return &gpu.Advice{
			What: "the NVIDIA driver reports: " + clean(words),
			Try:  "look for NVRM lines in the kernel log (dmesg), and check that nvidia-smi runs",
			Err:  errors.Join(gpu.ErrNoDriver, cause),
		}
	}
}

var noLibrary = gpu.Advice{
	What: "nvidia-smi can't find NVIDIA's management library",
	Try:  "reinstall the NVIDIA driver; in a container, start it with the NVIDIA runtime (--gpus all)",
}

func notLoaded(cause error) *gpu.Advice {
	a := because(nvidia.NotLoaded, gpu.ErrNoDriver, cause)
	if runtime.GOOS == "windows" {
		a.Try = "check the card in Device Manager, and reinstall the NVIDIA driver; check that nvidia-smi runs"
	}
	return a
}

var (
	handleOf     = lazy.Pattern(`(?i)^unable to determine the device handle for gpu\s*(.*)$`)
	addressIn    = lazy.Pattern(`(?i)[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]`)
	indexIn      = lazy.Pattern(`^(\d{1,3})\b`)
	unknownField = lazy.Pattern(`(?i)^field "([^"]+)" is not a valid field to query`)
)

// A sentence is the meaning of a line that is not data.
type sentence struct {
	err *gpu.Advice // nil if nothing is wrong, or only a field is
	// The device that err is about: its bus address or its index; both are "" for the driver.
	address, index string
	field          string // a field that this version does not know
	unsupported    bool
}

// about reports whether the sentence is about one device.
func (s *sentence) about() bool { return s.address != "" || s.index != "" }

// sentenceOf finds out what a line means; ok is false for an unknown line.
func sentenceOf(line string) (s sentence, ok bool) {
	line = strings.TrimSpace(line)
	w := strings.ToLower(line)
	if m := handleOf().FindStringSubmatch(line); m != nil {
		s.address, _ = busAddress(value(addressIn().FindString(m[1])))
		if s.address == "" {
			s.index = indexIn().FindString(m[1])
		}
		cause := m[1]
		if i := strings.LastIndex(cause, ": "); i >= 0 {
			cause = cause[i+2:]
		}
		s.err = failureOf(cause)
		return s, s.about()
	}
	if m := unknownField().FindStringSubmatch(line); m != nil {
		return sentence{field: m[1]}, true
	}
	_, reason, initializes := strings.Cut(w, "failed to initialize nvml:")
	switch cause := said(line); {
	case initializes:
		s.err = failureOf(reason)
	case strings.Contains(w, "couldn't communicate with the nvidia driver"):
		s.err = notLoaded(cause)
	case strings.Contains(w, "couldn't find libnvidia-ml"):
		s.err = because(noLibrary, gpu.ErrNoLibrary, cause)
	case strings.HasPrefix(w, "no devices were found"):
		s.err = because(nvidia.NoDevices, gpu.ErrNoDevices, cause)
	case strings.Contains(w, "gpu is lost"):
		s.err = failureOf(line)
	case strings.Contains(w, "insufficient permissions") && !strings.HasPrefix(w, "["):
		s.err = failureOf(line)
	case strings.HasPrefix(w, "not supported on the device"), strings.Contains(w, "is not supported"),
		strings.HasPrefix(w, "invalid combination"), strings.HasPrefix(w, "option"), strings.HasPrefix(w, "error: option"):
		s.unsupported = true
	default:
		return sentence{}, false
	}
	return s, true
}

// exitOf says what a command's own error means if no sentence did; nil: nothing.
func exitOf(err error) *gpu.Advice {
	if a, ok := errors.AsType[*gpu.Advice](err); ok {
		return a
	}
	code := -1
	if e, ok := errors.AsType[interface {
		error
		ExitCode() int
	}](err); ok {
		code = e.ExitCode()
	} else if e, ok := errors.AsType[interface {
		error
		ExitStatus() int
	}](err); ok {
		code = e.ExitStatus()
	}
	cause := fmt.Errorf("%w: %w", errEnded, err)
	switch code { // as its manual lists them
	case 4:
		return because(nvidia.NotPermitted, gpu.ErrNotPermitted, cause)
	case 8:
		return because(nvidia.Underpowered, gpu.ErrNoDriver, cause)
	case 9:
		return notLoaded(cause)
	case 12:
		return because(noLibrary, gpu.ErrNoLibrary, cause)
	case 15:
		return because(nvidia.Lost, perdevice.ErrLost, gpu.ErrNoDriver, cause)
	case 127: // of a shell
		return because(gpu.Advice{What: "nvidia-smi was not found", Try: "install the NVIDIA driver, which includes it"},
			gpu.ErrNoDriver, cause)
	default:
		return nil
	}
}

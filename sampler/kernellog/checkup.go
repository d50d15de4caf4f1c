package kernellog

import (
	"context"
	"log/slog"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/checkup"
)

// Checks are what reading the kernel log needs.
func Checks(m *checkup.Machine, path string) []checkup.Check {
	return []checkup.Check{{Name: "kernel log", Run: func(context.Context) checkup.Finding {
		if path == "" {
			return checkup.None("this system has no kernel log that gpuwhy reads")
		}
		r, err := open(path)
		if err == nil {
			err = r.close()
		}
		if err == nil {
			return checkup.Good("it may be read: gpuwhy sees errors of GPU drivers")
		}
		l := New(Config{Path: path, Log: slog.New(slog.DiscardHandler)})
		l.fail(err)
		mend := l.state.advice.Try
		switch {
		case m.Container:
			mend = "start the container with: docker run --device /dev/kmsg --cap-add SYSLOG …"
		case l.state.why == gpu.NotPermitted:
			mend = "sudo sysctl kernel.dmesg_restrict=0; for the service instead: sudo systemctl edit gpuwhy, with the lines of its unit about driver errors"
		}
		return checkup.Less(l.state.advice.What, mend)
	}}}
}

package host

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/sampler/checkup"
)

// Checks are what reading the machine around the GPUs needs. built is when this program was built, which the clock can't be before; zero
// if unknown.
func (r *Reader) Checks(m *checkup.Machine, built time.Time) []checkup.Check {
	return []checkup.Check{
		{Name: "container", Run: func(context.Context) checkup.Finding { return r.containerFinding(m) }},
		{Name: "processes", Run: func(context.Context) checkup.Finding { return r.processFinding() }},
		{Name: "fans of the machine", Run: func(ctx context.Context) checkup.Finding { return r.fanFinding(ctx, m) }},
		{Name: "clock", Run: func(context.Context) checkup.Finding { return clockFinding(r.now(), built, synchronized) }},
	}
}

func (r *Reader) containerFinding(m *checkup.Machine) checkup.Finding {
	switch {
	case !m.Container:
		return checkup.None("gpuwhy runs in none")
	case !r.hint.IsZero():
		return checkup.Bad(r.hint.What, "start the container with: docker run --pid host … (in Kubernetes: hostPID: true)")
	}
	return checkup.Good("it shares the machine's process ids")
}

func (r *Reader) processFinding() checkup.Finding {
	switch {
	case r.portable:
		return checkup.Good("this system lists them")
	case !r.hint.IsZero():
		return checkup.Bad(r.hint.What, r.hint.Try)
	}
	// A /proc with hidepid shows a user only that user's processes.
	if err := checkup.Access(r.path("proc/1/stat"), false); err != nil {
		return checkup.Less("processes of other users are hidden here: /proc is mounted with hidepid, or the unit has ProtectProc=invisible",
			"sudo mount -o remount,hidepid=0 /proc; for the service: sudo systemctl edit gpuwhy, with ProtectProc=default")
	}
	return checkup.Good("those of all users are visible")
}

func (r *Reader) fanFinding(ctx context.Context, m *checkup.Machine) checkup.Finding {
	h, err := r.Read(ctx)
	switch {
	case err != nil && len(h.Fans) == 0 && h.NoFans.IsZero():
		return checkup.Less(err.Error(), "")
	case len(h.Fans) > 0:
		return checkup.Good(fmt.Sprintf("%d can be read", len(h.Fans)))
	case h.NoFans.IsZero():
		return checkup.None("this system does not say whether it has fans")
	case strings.Contains(h.NoFans.What, "virtual machine"):
		return checkup.None(h.NoFans.What)
	}
	mend := "sudo apt install lm-sensors && sudo sensors-detect --auto, then load the module that it names: sudo modprobe nct6775"
	if m.Container {
		mend = "start the container with the machine's sensors: docker run -v /sys:/host/sys:ro -e GPUWHY_SYSFS_ROOT=/host/sys …"
	}
	return checkup.Less(h.NoFans.What, mend)
}

// clockFinding checks the wall clock. sync reports whether the system keeps it right, and whether that is known.
func clockFinding(now, built time.Time, sync func() (right, known bool)) checkup.Finding {
	const mend = "sudo timedatectl set-ntp true"
	right, known := sync()
	switch {
	case now.Before(built.Add(-24 * time.Hour)):
		return checkup.Bad("it shows "+now.UTC().Format(time.DateOnly)+", which is before this gpuwhy was built", mend)
	case known && !right:
		return checkup.Less("the kernel says that nothing keeps it right: times of events may be wrong", mend)
	case !known:
		return checkup.Good("it shows " + now.UTC().Format("2006-01-02 15:04 MST"))
	}
	return checkup.Good("something keeps it right, such as NTP")
}

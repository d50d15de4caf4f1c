package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// mostWatts is more than any processor draws: a higher value was counted wrong.
const mostWatts = 5000

// aPackage matches the energy counters of whole processors; other counters are parts of them.
var aPackage = lazy.Pattern(`^intel-rapl:[0-9]+$`)

// readPower adds up the power draw of the processors.
func (r *Reader) readPower(_ context.Context, h *gpu.Host) error {
	h.CPUPower = gpu.Absent[gpu.Watts](gpu.NotSupported)
	zones, err := os.ReadDir(r.sysfs + "/class/powercap")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	sum, known := 0.0, true
	found := false
	for _, z := range zones {
		dir := filepath.Join(r.sysfs, "class/powercap", z.Name())
		if !aPackage().MatchString(z.Name()) {
			continue
		}
		if name, err := readOnce(dir + "/name"); err != nil || !strings.HasPrefix(name, "package-") {
			continue // the whole machine's counter, which some boards don't connect
		}
		found = true
		text, err := readOnce(dir + "/energy_uj")
		if err != nil {
			h.CPUPower = gpu.Absent[gpu.Watts](absence(err))
			if errors.Is(err, fs.ErrPermission) {
				return nil // most systems are like that
			}
			return fmt.Errorf("%s: %w", z.Name(), err)
		}
		used, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			h.CPUPower = gpu.Reading[gpu.Watts]{}
			return fmt.Errorf("%s: %w", z.Name(), err)
		}
		rate, ok := r.rates.rate("energy of "+z.Name(), float64(used)).Get()
		sum, known = sum+rate/1e6, known && ok
	}
	switch {
	case !found:
	case known && sum <= mostWatts:
		h.CPUPower = gpu.Of(gpu.Watts(sum))
	default:
		h.CPUPower = gpu.Reading[gpu.Watts]{}
	}
	return err
}

// readThrottling reports whether a processor has slowed itself down because of heat.
func (r *Reader) readThrottling(_ context.Context, h *gpu.Host) error {
	if r.packages == nil {
		r.packages = r.listPackages()
	}
	h.CPUThrottled = gpu.Absent[bool](gpu.NotSupported)
	for i, file := range r.packages {
		text, err := readOnce(file)
		var times uint64
		if err == nil {
			times, err = strconv.ParseUint(text, 10, 64)
		}
		if err != nil {
			h.CPUThrottled = gpu.Absent[bool](absence(err))
			return fmt.Errorf("%s: %w", file, err)
		}
		slowed := gpu.Map(r.rates.rate("throttled "+file, float64(times)), func(v float64) bool { return v > 0 })
		if i == 0 || slowed.Or(false) || !slowed.Present() && !h.CPUThrottled.Or(false) {
			h.CPUThrottled = slowed
		}
	}
	return nil
}

// listPackages finds the throttle counter of each processor, which each of its cores shows. The list is never nil.
func (r *Reader) listPackages() []string {
	found, seen := []string{}, map[string]bool{}
	files, _ := filepath.Glob(r.sysfs + "/devices/system/cpu/cpu[0-9]*/thermal_throttle/package_throttle_count") // the pattern is valid
	for _, file := range files {
		id, err := readOnce(filepath.Join(filepath.Dir(file), "../topology/physical_package_id"))
		if err != nil {
			id = "0"
		}
		if !seen[id] {
			seen[id] = true
			found = append(found, file)
		}
	}
	return found
}

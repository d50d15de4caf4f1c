//go:build !windows

package host

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/shirou/gopsutil/v3/cpu"
	"github.com/shirou/gopsutil/v3/disk"
	"github.com/shirou/gopsutil/v3/mem"
	gopsutil "github.com/shirou/gopsutil/v3/process"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// cpuModel returns the name of the first processor.
func cpuModel(ctx context.Context) (string, error) {
	infos, err := cpu.InfoWithContext(ctx)
	if err != nil || len(infos) == 0 {
		return "", err
	}
	return strings.Join(strings.Fields(infos[0].ModelName), " "), nil
}

func swap(ctx context.Context) (total, used gpu.Bytes, err error) {
	m, err := mem.SwapMemoryWithContext(ctx)
	if err != nil {
		return 0, 0, err
	}
	return gpu.Bytes(m.Total), gpu.Bytes(m.Used), nil
}

// drives returns the disks, each once. Of macOS's volumes, which share one disk, it returns the root.
func drives(ctx context.Context) (list []disk.PartitionStat, err error) {
	all, err := disk.PartitionsWithContext(ctx, false)
	for _, m := range all {
		same := func(other disk.PartitionStat) bool { return other.Device == m.Device }
		if onBlockDevice(m) && !strings.HasPrefix(m.Mountpoint, "/System/Volumes/") && !slices.ContainsFunc(list, same) {
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(a, b disk.PartitionStat) int { return cmp.Compare(a.Mountpoint, b.Mountpoint) })
	return list, err
}

// argumentsOf returns a process's arguments.
func argumentsOf(ctx context.Context, p *gopsutil.Process) ([]string, error) {
	return p.CmdlineSliceWithContext(ctx)
}

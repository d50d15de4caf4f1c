package host

import (
	"context"
	"strings"

	"github.com/shirou/gopsutil/v3/disk"
	"github.com/shirou/gopsutil/v3/mem"
	gopsutil "github.com/shirou/gopsutil/v3/process"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// cpuModel returns the name of the first processor.
func cpuModel(context.Context) (string, error) {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `HARDWARE\DESCRIPTION\System\CentralProcessor\0`, registry.QUERY_VALUE)
	if err != nil {
		return "", err
	}
	defer key.Close()
	name, _, err := key.GetStringValue("ProcessorNameString")
	return strings.Join(strings.Fields(name), " "), err
}

// swap returns the size and use of the page files.
func swap(ctx context.Context) (total, used gpu.Bytes, err error) {
	files, err := mem.SwapDevicesWithContext(ctx)
	for _, f := range files {
		total, used = total+gpu.Bytes(f.UsedBytes+f.FreeBytes), used+gpu.Bytes(f.UsedBytes)
	}
	return total, used, err
}

// drives returns the fixed disks: network disks may not answer, and others come and go.
func drives(context.Context) (list []disk.PartitionStat, err error) {
	mask, err := windows.GetLogicalDrives()
	if err != nil {
		return nil, err
	}
	for letter := range 'Z' - 'A' + 1 {
		if mask&(1<<letter) == 0 {
			continue
		}
		name := string('A'+letter) + ":"
		root := windows.StringToUTF16Ptr(name + `\`)
		if windows.GetDriveType(root) != windows.DRIVE_FIXED {
			continue
		}
		var system [windows.MAX_PATH + 1]uint16
		// The kind stays empty if the disk does not report it.
		_ = windows.GetVolumeInformation(root, nil, 0, nil, nil, nil, &system[0], uint32(len(system)))
		list = append(list, disk.PartitionStat{Device: name, Mountpoint: name + `\`, Fstype: windows.UTF16ToString(system[:])})
	}
	return list, nil
}

// argumentsOf returns a process's arguments.
func argumentsOf(ctx context.Context, p *gopsutil.Process) ([]string, error) {
	line, err := p.CmdlineWithContext(ctx)
	if err != nil || strings.TrimSpace(line) == "" {
		return nil, err
	}
	return windows.DecomposeCommandLine(line)
}

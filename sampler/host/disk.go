package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/shirou/gopsutil/v3/disk"
)

// mountsFor is how long the list of mounts is kept. It is long on machines with many containers.
const mountsFor = time.Minute

// readDisks lists the file systems on block devices, each device once, and always the root.
func (r *Reader) readDisks(ctx context.Context, h *gpu.Host) error {
	var errs []error
	if r.mounts == nil || r.now().Sub(r.mounted) >= mountsFor {
		list, err := r.listMounts(ctx)
		if err != nil {
			return err
		}
		r.mounts, r.mounted = list, r.now()
	}
	var names []string
	for _, m := range r.mounts {
		d := gpu.Disk{Device: m.Device, Mount: m.Mountpoint, FileSystem: m.Fstype}
		if use, err := disk.UsageWithContext(ctx, r.root+m.Mountpoint); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.Mountpoint, err))
		} else {
			d.Total, d.Used = gpu.Of(gpu.Bytes(use.Total)), gpu.Of(gpu.Bytes(use.Used))
		}
		h.Disks = append(h.Disks, d)
		if onBlockDevice(m) {
			names = append(names, r.blockName(m.Device))
		}
	}
	if len(names) == 0 {
		return errors.Join(errs...)
	}
	traffic, err := disk.IOCountersWithContext(ctx, names...)
	if err != nil {
		errs = append(errs, err)
	}
	for i := range h.Disks {
		d := &h.Disks[i]
		name := r.blockName(d.Device)
		if t, ok := traffic[name]; ok {
			d.Read, d.Write = r.rates.bytes(name+" read", t.ReadBytes), r.rates.bytes(name+" written", t.WriteBytes)
		}
	}
	return errors.Join(errs...)
}

func (r *Reader) listMounts(ctx context.Context) ([]disk.PartitionStat, error) {
	all, err := disk.PartitionsWithContext(ctx, true)
	if err != nil {
		return nil, err
	}
	byDevice := map[string]disk.PartitionStat{}
	var root *disk.PartitionStat // the visible one, if several are mounted
	for _, m := range all {
		if m.Mountpoint == "/" {
			root = new(m)
		}
		m.Device = strings.TrimPrefix(m.Device, r.root) // from a link that gopsutil followed
		if !onBlockDevice(m) || !r.isDirectory(m.Mountpoint) {
			continue
		}
		if best, ok := byDevice[m.Device]; !ok || betterMount(m, best) {
			byDevice[m.Device] = m
		}
	}
	list := slices.Collect(maps.Values(byDevice))
	// In a container the root is an overlay; with ZFS it has no device.
	isRoot := func(m disk.PartitionStat) bool { return m.Mountpoint == "/" }
	if root != nil && !slices.ContainsFunc(list, isRoot) {
		list = append(list, *root)
	}
	slices.SortFunc(list, func(a, b disk.PartitionStat) int { return cmp.Compare(a.Mountpoint, b.Mountpoint) })
	return list, nil
}

// onBlockDevice excludes file systems in memory, on the network and in files (snaps, images).
func onBlockDevice(m disk.PartitionStat) bool {
	return strings.HasPrefix(m.Device, "/dev/") && !strings.HasPrefix(m.Device, "/dev/loop") &&
		!slices.Contains([]string{"squashfs", "erofs", "iso9660", "devtmpfs", "tmpfs"}, m.Fstype) &&
		!strings.HasPrefix(m.Fstype, "fuse.")
}

// betterMount prefers the whole device to a part of it (a bind mount), then short paths.
func betterMount(a, b disk.PartitionStat) bool {
	if bindA, bindB := slices.Contains(a.Opts, "bind"), slices.Contains(b.Opts, "bind"); bindA != bindB {
		return bindB
	}
	return len(a.Mountpoint) < len(b.Mountpoint)
}

// isDirectory excludes single files, such as /etc/hosts in a container. A mount that can't be examined counts as a directory.
func (r *Reader) isDirectory(mountpoint string) bool {
	info, err := os.Stat(r.root + mountpoint)
	return err != nil || info.IsDir()
}

// blockName returns the kernel's name of a device: "nvme0n1p1" for "/dev/nvme0n1p1", or for a link to it such as "/dev/disk/by-uuid/…".
func (r *Reader) blockName(device string) string {
	if strings.Count(device, "/") > 2 {
		if target, err := filepath.EvalSymlinks(r.root + device); err == nil {
			device = target
		}
	}
	return filepath.Base(device)
}

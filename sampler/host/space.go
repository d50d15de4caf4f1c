package host

import (
	"fmt"

	"github.com/shirou/gopsutil/v3/disk"
)

// FreeSpace returns how many bytes a program may still write to a folder's disk, from statfs(2) or GetDiskFreeSpaceEx.
func FreeSpace(dir string) (uint64, error) {
	use, err := disk.Usage(dir)
	if err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return use.Free, nil
}

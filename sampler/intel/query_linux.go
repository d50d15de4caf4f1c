package intel

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// The driver queries, from the kernel's i915_drm.h and xe_drm.h.
const (
	i915QueryCall  = 0xc0106479
	i915QueryWhich = 4 // the memory regions
	xeQueryCall    = 0xc0286440
	xeQueryWhich   = 1
	mostAnswer     = 64 << 10
)

type i915Query struct {
	items, flags uint32
	item         uint64 // address of the item
}

type i915Item struct {
	which  uint64
	length int32 // 0 asks for it
	flags  uint32
	data   uint64
}

type xeQuery struct {
	extensions  uint64
	which, size uint32 // a size of 0 asks for it
	data        uint64
	_           [2]uint64
}

// askMemory asks the driver for the size of the card's own memory, through its render node. Any user who may use the GPU may ask.
func askMemory(devices, driver string, nodes []string) gpu.Reading[gpu.Bytes] {
	for _, node := range nodes {
		if !strings.HasPrefix(node, "renderD") {
			continue
		}
		f, err := openNode(filepath.Join(devices, "dri", node), node)
		if err != nil {
			return gpu.Absent[gpu.Bytes](drm.Quality(err))
		}
		defer f.Close()
		if driver == driverXe {
			return askXe(f.Fd())
		}
		return askI915(f.Fd())
	}
	return gpu.Absent[gpu.Bytes](gpu.NotSupported)
}

// openNode opens a card's node if the file is the node of that name: nothing else gets a query.
func openNode(file, name string) (*os.File, error) {
	const major = 226 // of DRM devices
	minor, err := strconv.ParseUint(strings.TrimPrefix(name, "renderD"), 10, 32)
	if err != nil {
		return nil, err
	}
	var is unix.Stat_t
	if err := unix.Stat(file, &is); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: file, Err: err}
	}
	if is.Mode&unix.S_IFMT != unix.S_IFCHR || unix.Major(is.Rdev) != major || uint64(unix.Minor(is.Rdev)) != minor {
		return nil, &fs.PathError{Op: "open", Path: file, Err: fs.ErrNotExist}
	}
	return os.OpenFile(file, os.O_RDWR, 0)
}

func askI915(fd uintptr) gpu.Reading[gpu.Bytes] {
	item := &i915Item{which: i915QueryWhich}
	ask := func() error {
		var pins runtime.Pinner
		defer pins.Unpin()
		pins.Pin(item)
		return call(fd, i915QueryCall, unsafe.Pointer(&i915Query{items: 1, item: address(unsafe.Pointer(item))}))
	}
	if err := ask(); err != nil {
		return gpu.Absent[gpu.Bytes](drm.Quality(err))
	}
	if item.length <= 0 || item.length > mostAnswer { // negative values are errors
		return gpu.Absent[gpu.Bytes](gpu.NotSupported)
	}
	answer := make([]byte, item.length)
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(&answer[0])
	item.data = address(unsafe.Pointer(&answer[0]))
	if err := ask(); err != nil {
		return gpu.Absent[gpu.Bytes](drm.Quality(err))
	}
	if int(item.length) != len(answer) {
		return gpu.Reading[gpu.Bytes]{}
	}
	return localMemory(answer, i915Regions)
}

func askXe(fd uintptr) gpu.Reading[gpu.Bytes] {
	query := &xeQuery{which: xeQueryWhich}
	if err := call(fd, xeQueryCall, unsafe.Pointer(query)); err != nil {
		return gpu.Absent[gpu.Bytes](drm.Quality(err))
	}
	if query.size == 0 || query.size > mostAnswer {
		return gpu.Reading[gpu.Bytes]{}
	}
	answer := make([]byte, query.size)
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(&answer[0])
	query.data = address(unsafe.Pointer(&answer[0]))
	if err := call(fd, xeQueryCall, unsafe.Pointer(query)); err != nil {
		return gpu.Absent[gpu.Bytes](drm.Quality(err))
	}
	return localMemory(answer, xeRegions)
}

// address returns what the kernel takes for a pointer; its target must be pinned.
func address(p unsafe.Pointer) uint64 { return uint64(uintptr(p)) }

func call(fd uintptr, number uintptr, argument unsafe.Pointer) error {
	const tries = 10
	var errno syscall.Errno
	for range tries {
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, number, uintptr(argument))
		if errno != syscall.EINTR && errno != syscall.EAGAIN {
			break
		}
	}
	if errno == 0 {
		return nil
	}
	return &fs.PathError{Op: "read", Path: "ioctl", Err: errno}
}

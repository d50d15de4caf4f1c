//go:build linux && cgo

package nvml

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

typedef int (*processes_fn)(void *device, unsigned int *count, void *rows);
typedef int (*samples_fn)(void *device, void *samples, unsigned int *count, unsigned long long since);
typedef int (*argument_fn)(void *device, void *argument);

static int processes(void *f, void *device, unsigned int *count, void *rows) {
	return ((processes_fn)f)(device, count, rows);
}
static int samples(void *f, void *device, void *out, unsigned int *count, unsigned long long since) {
	return ((samples_fn)f)(device, out, count, since);
}
static int argument(void *f, void *device, void *argument) {
	return ((argument_fn)f)(device, argument);
}
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"runtime"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// These calls bypass the binding; doc.go says why.

// open loads a library as the binding does, and keeps it loaded.
func open(path string) (unsafe.Pointer, error) {
	runtime.LockOSThread() // dlerror is per thread
	defer runtime.UnlockOSThread()
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	if h := C.dlopen(name, C.RTLD_LAZY|C.RTLD_GLOBAL); h != nil {
		return h, nil
	}
	return nil, errors.New(C.GoString(C.dlerror()))
}

// find returns a function of an open library, nil if the library lacks it.
func find(library unsafe.Pointer, symbol string) unsafe.Pointer {
	name := C.CString(symbol)
	defer C.free(unsafe.Pointer(name))
	return C.dlsym(library, name)
}

// pointerOf returns the driver's own handle of a device.
func pointerOf(d nvml.Device) unsafe.Pointer {
	return reflect.ValueOf(d).FieldByName("Handle").UnsafePointer()
}

const (
	firstRows = 64      // one call is enough for this many processes
	mostRows  = 1 << 16 // a larger count is wrong
	widest    = 32      // bytes of the widest row
	unwritten = 0xa5    // marks bytes that the driver has not written
)

// rawProcess is a row of a process list. Missing fields are all ones.
type rawProcess struct {
	pid                          uint32
	memory                       uint64
	gpuInstance, computeInstance uint32
}

// buffers hold the rows of one device, whose calls come one after the other. They keep the result of a call until the next call.
type buffers struct {
	written []byte // rows of a process list
	rows    []rawProcess
	samples []rawSample
	count   C.uint
}

// grow repeats a call with larger buffers until all rows fit. It starts with the size that was enough before, and keeps the size that is
// enough now.
func grow[T any](b *buffers, buf *[]T, size int, call func(buf []T) C.int) (count int, c code) {
	for room := max(firstRows, len(*buf)/size); room <= mostRows; room = max(2*room, count+firstRows) {
		if len(*buf) < room*size {
			*buf = make([]T, room*size)
		}
		b.count = C.uint(room)
		c = code(call(*buf))
		count = int(b.count)
		if c != insufficientSize {
			return count, c
		}
	}
	*buf = nil
	return 0, insufficientSize
}

// processes calls a process list. The buffer has room for the widest rows; how much the driver wrote shows how wide the rows are.
func (b *buffers) processes(function, device unsafe.Pointer) ([]rawProcess, code) {
	count, c := grow(b, &b.written, widest, func(buf []byte) C.int {
		mark(buf)
		return C.processes(function, device, &b.count, unsafe.Pointer(&buf[0]))
	})
	switch {
	case c != success:
		return nil, c
	case count > len(b.written)/widest:
		return nil, unknown
	}
	b.rows = splitRows(b.written, count, b.rows[:0])
	return b.rows, success
}

// mark marks all bytes as unwritten. Copying marked bytes is several times as fast as a loop.
func mark(buf []byte) {
	buf[0] = unwritten
	for done := 1; done < len(buf); done *= 2 {
		copy(buf[done:], buf[:done])
	}
}

// splitRows reads the rows of a buffer whose bytes were all marked as unwritten. The last byte of a row never equals the mark: it is the
// high end of a size or an instance.
func splitRows(buf []byte, count int, rows []rawProcess) []rawProcess {
	written := min(len(buf), count*widest)
	for written > 0 && buf[written-1] == unwritten {
		written--
	}
	width := 16
	for width < widest && count*width < written {
		width += 8
	}
	for i := range count {
		row := buf[i*width:]
		r := rawProcess{
			pid:             binary.NativeEndian.Uint32(row),
			memory:          binary.NativeEndian.Uint64(row[8:]),
			gpuInstance:     math.MaxUint32,
			computeInstance: math.MaxUint32,
		}
		if width >= 24 {
			r.gpuInstance = binary.NativeEndian.Uint32(row[16:])
			r.computeInstance = binary.NativeEndian.Uint32(row[20:])
		}
		rows = append(rows, r)
	}
	return rows
}

// usage returns what processes used after since, in microseconds.
func (b *buffers) usage(function, device unsafe.Pointer, since uint64) ([]rawSample, code) {
	count, c := grow(b, &b.samples, 1, func(buf []rawSample) C.int {
		clear(buf) // a row that the driver skips has no pid
		return C.samples(function, device, unsafe.Pointer(&buf[0]), &b.count, C.ulonglong(since))
	})
	if c != success {
		return nil, c
	}
	return b.samples[:min(count, len(b.samples))], success
}

// rawPIDs returns the pids that the driver accounts for; insufficientSize if there are more than room.
func rawPIDs(function, device unsafe.Pointer, room int) ([]uint32, code) {
	buf, rows := make([]uint32, room), C.uint(room)
	c := code(C.processes(function, device, &rows, unsafe.Pointer(&buf[0])))
	if c != success {
		return nil, c
	}
	return buf[:min(int(rows), room)], success
}

func rawFanRPM(function, device unsafe.Pointer, fan int) (uint32, code) {
	info := nvml.FanSpeedInfo{Fan: uint32(fan)}
	info.Version = nvml.STRUCT_VERSION(info, 1)
	c := code(C.argument(function, device, unsafe.Pointer(&info)))
	return info.Speed, c
}

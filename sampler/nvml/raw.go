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

// These calls don't use the binding; doc.go says why.

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

// pointerOf is the handle that the driver itself uses for a device.
func pointerOf(d nvml.Device) unsafe.Pointer {
	return reflect.ValueOf(d).FieldByName("Handle").UnsafePointer()
}

const (
	firstRows = 64      // one call is enough for so many processes
	mostRows  = 1 << 16 // a larger count is wrong
	widest    = 32      // bytes of the widest row
	unwritten = 0xa5    // marks bytes that the driver has not written
)

// rawProcess is a row of a process list. Fields that the row lacks are all ones.
type rawProcess struct {
	pid                          uint32
	memory                       uint64
	gpuInstance, computeInstance uint32
}

// grow repeats a call with larger buffers until all rows have room.
func grow[T any](size int, call func(buf []T, count *C.uint) C.int) (buf []T, count int, c code) {
	for room := firstRows; room <= mostRows; room = max(2*room, count+firstRows) {
		buf = make([]T, room*size)
		rows := C.uint(room)
		c = code(call(buf, &rows))
		count = int(rows)
		if c != insufficientSize {
			return buf, count, c
		}
	}
	return nil, 0, insufficientSize
}

// rawProcesses calls a process list. The buffer has room for the widest rows; how far
// the driver has written tells how wide the rows are.
func rawProcesses(function, device unsafe.Pointer) ([]rawProcess, code) {
	buf, count, c := grow(widest, func(buf []byte, count *C.uint) C.int {
		for i := range buf {
			buf[i] = unwritten
		}
		return C.processes(function, device, count, unsafe.Pointer(&buf[0]))
	})
	switch {
	case c != success:
		return nil, c
	case count > len(buf)/widest:
		return nil, unknown
	}
	return splitRows(buf, count), success
}

// splitRows reads the rows of a buffer that was all unwritten before. The last byte of
// a row is never the mark: it is the high end of a size or an instance.
func splitRows(buf []byte, count int) []rawProcess {
	if count == 0 {
		return nil
	}
	written := len(buf)
	for written > 0 && buf[written-1] == unwritten {
		written--
	}
	width := 16
	for width < widest && count*width < written {
		width += 8
	}
	rows := make([]rawProcess, count)
	for i := range rows {
		row := buf[i*width:]
		rows[i] = rawProcess{
			pid:             binary.NativeEndian.Uint32(row),
			memory:          binary.NativeEndian.Uint64(row[8:]),
			gpuInstance:     math.MaxUint32,
			computeInstance: math.MaxUint32,
		}
		if width >= 24 {
			rows[i].gpuInstance = binary.NativeEndian.Uint32(row[16:])
			rows[i].computeInstance = binary.NativeEndian.Uint32(row[20:])
		}
	}
	return rows
}

// rawSamples returns what processes used after since, in microseconds.
func rawSamples(function, device unsafe.Pointer, since uint64) ([]rawSample, code) {
	buf, count, c := grow(1, func(buf []rawSample, count *C.uint) C.int {
		return C.samples(function, device, unsafe.Pointer(&buf[0]), count, C.ulonglong(since))
	})
	if c != success {
		return nil, c
	}
	return buf[:min(count, len(buf))], success
}

// rawPIDs returns the pids that the driver accounts for: insufficientSize where there are more than room.
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

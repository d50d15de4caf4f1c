//go:build linux && cgo

package fakenvml

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

extern void fakenvmlSleep(long);

static const char *sleep_with_go(const char *path) {
	void *library = dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
	if (!library) return dlerror();
	void (*set)(void (*)(long)) = (void (*)(void (*)(long)))dlsym(library, "nvmlFakeSleepWith");
	if (!set) return dlerror();
	set(fakenvmlSleep);
	return NULL;
}
*/
import "C"

import (
	"errors"
	"time"
	"unsafe"
)

// SleepInGo makes hanging and slow calls of this process sleep with time.Sleep on the goroutine that called. So time passes for them in a
// testing/synctest bubble, which never waits for a goroutine in C.
func (l *Library) SleepInGo() error {
	path := C.CString(l.Path())
	defer C.free(unsafe.Pointer(path))
	if failed := C.sleep_with_go(path); failed != nil {
		return errors.New(C.GoString(failed))
	}
	return nil
}

//export fakenvmlSleep
func fakenvmlSleep(ms C.long) { time.Sleep(time.Duration(ms) * time.Millisecond) }

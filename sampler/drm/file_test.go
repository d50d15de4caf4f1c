package drm

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/gpuwhy/gpuwhy/gpu"
)

func TestQuality(t *testing.T) {
	failed := func(op string, errno syscall.Errno) error { return &fs.PathError{Op: op, Path: "file", Err: errno} }
	for _, tt := range []struct {
		err  error
		want gpu.Quality
	}{
		{failed("open", syscall.ENOENT), gpu.NotSupported},
		{failed("open", syscall.EACCES), gpu.NotPermitted},
		{failed("open", syscall.EPERM), gpu.NotPermitted},
		{failed("read", syscall.EACCES), gpu.NotPermitted},
		{failed("read", syscall.EPERM), gpu.NotReported}, // a card under reset
		{failed("read", syscall.EIO), gpu.NotReported},
		{failed("read", syscall.EBUSY), gpu.NotReported},
		{failed("read", syscall.EOPNOTSUPP), gpu.NotSupported},
		{failed("read", syscall.Errno(524)), gpu.NotSupported}, // the kernel's internal ENOTSUPP
		{failed("read", syscall.EINVAL), gpu.NotSupported},
		{failed("read", syscall.ENODATA), gpu.NotSupported},
		{failed("read", syscall.ENODEV), gpu.NotReported},
		{fmt.Errorf("x: %w", ErrMalformed), gpu.NotReported},
		{errors.New("other"), gpu.NotReported},
	} {
		if got := Quality(tt.err); got != tt.want {
			t.Errorf("%v is %v, want %v", tt.err, got, tt.want)
		}
	}
	if !Gone(failed("read", syscall.ENODEV)) || Gone(failed("read", syscall.EIO)) {
		t.Error("ENODEV alone says that the device is gone")
	}
}

// one returns a folder in which every file has the same text.
func one(text string) Folder {
	return Folder{"folder", func(string) ([]byte, error) { return []byte(text), nil }}
}

func TestReadings(t *testing.T) {
	for _, tt := range []struct {
		text string
		want gpu.Reading[gpu.Celsius]
	}{
		{"45000\n", gpu.Of[gpu.Celsius](45)},
		{"-5000", gpu.Of[gpu.Celsius](-5)},
		{"0\n", gpu.Of[gpu.Celsius](0)},
		{"500000\n", gpu.DoubtfulOf[gpu.Celsius](500)},
		{"-500000\n", gpu.DoubtfulOf[gpu.Celsius](-500)},
		{"18446744073709551615\n", gpu.Reading[gpu.Celsius]{}},
		{"9223372036854775808\n", gpu.Reading[gpu.Celsius]{}},
		{"9223372036854775807\n", gpu.Reading[gpu.Celsius]{}},
		{"99999999999999999999999\n", gpu.Reading[gpu.Celsius]{}},
		{"NaN\n", gpu.Reading[gpu.Celsius]{}},
		{"1e3\n", gpu.Reading[gpu.Celsius]{}},
		{"", gpu.Reading[gpu.Celsius]{}},
		{"warm\n", gpu.Reading[gpu.Celsius]{}},
		{"45000 mC\n", gpu.Reading[gpu.Celsius]{}},
	} {
		if got := one(tt.text).Celsius("temp1_input"); got != tt.want {
			t.Errorf("%q is %v, want %v", tt.text, got, tt.want)
		}
	}
	if got := one("0").Limit("temp1_crit"); got != gpu.Absent[gpu.Celsius](gpu.NotSupported) {
		t.Errorf("a limit of 0 is %v", got)
	}
	if got := one("12345").Percent("gpu_busy_percent"); got != gpu.DoubtfulOf[gpu.Percent](100) {
		t.Errorf("12345 %% is %v", got)
	}
	if got := one("250000000").Watts("power1_average"); got != gpu.Of[gpu.Watts](250) {
		t.Errorf("250 W are %v", got)
	}
	if got := one("25753026560").Size("mem_info_vram_total"); got != gpu.Of[gpu.Bytes](25753026560) {
		t.Errorf("24 GiB are %v", got)
	}
	if got := one("-1").Size("mem_info_vram_used"); got != (gpu.Reading[gpu.Bytes]{}) {
		t.Errorf("-1 bytes are %v", got)
	}
	for text, want := range map[string]gpu.Reading[int]{
		"16.0 GT/s PCIe": gpu.Of(4), "2.5 GT/s PCIe": gpu.Of(1), "32.0 GT/s PCIe": gpu.Of(5), "Unknown": {}, "": {}, "17 GT/s": {},
	} {
		if got := Generation(text); got != want {
			t.Errorf("%q is generation %v, want %v", text, got, want)
		}
	}
	if got := Of[gpu.Watts](math.NaN(), nil, 1, 0, 1); got.Present() {
		t.Errorf("no number is %v", got)
	}
}

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"AMD Radeon\n":      "AMD Radeon",
		" a\tb\nc ":         "a b c",
		"a\x00b":            "ab",
		"red \x1b[31m":      "red \uFFFD[31m",
		"left\u202eright":   "left\uFFFDright",
		"\xff":              "\uFFFD",
		"":                  "",
		"113-D7020100-102 ": "113-D7020100-102",
	} {
		if got := Clean(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add(strings.Repeat("é", 200))
	f.Add("a\x00\x1b\xff\u202e")
	f.Fuzz(func(t *testing.T, text string) {
		got := Clean(text)
		if len(got) > mostText || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\t\x00\x1b") || Clean(got) != got {
			t.Errorf("%q becomes %q", text, got)
		}
	})
}

// A file is read completely, but at most 64 KiB of it.
func TestReadFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	for _, size := range []int{0, 1, 4095, 4096, 4097, 20_000, 65_536, 65_537, 1 << 20} {
		if err := os.WriteFile(file, []byte(strings.Repeat("x", size)), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadFile(file)
		if err != nil || len(got) != min(size, 64<<10) {
			t.Errorf("of %d bytes %d are read: %v", size, len(got), err)
		}
	}
	if _, err := ReadFile(filepath.Dir(file)); err == nil {
		t.Error("a folder is a file")
	}
	if _, err := ReadFile(file + "x"); Quality(err) != gpu.NotSupported {
		t.Error("a file that is not there is", Quality(err))
	}
}

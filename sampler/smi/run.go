package smi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Program returns a Run of a program on this machine, which it looks for at each start. An empty path means nvidia-smi in PATH, or where
// Windows, WSL and containers keep it.
func Program(path string) Run {
	return func(ctx context.Context, stdout, stderr io.Writer, args ...string) error {
		file, err := find(path)
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, file, args...)
		cmd.Env = append(os.Environ(), "LC_ALL=C", "LANG=C", "NVSMI_SHOW_ALL_DEVICES=1")
		cmd.Stdout, cmd.Stderr = stdout, stderr
		cmd.WaitDelay = time.Second // a grandchild may hold the pipes open
		ownGroup(cmd)
		if err = cmd.Run(); errors.Is(err, fs.ErrPermission) {
			return forbidden(file, err)
		}
		return err
	}
}

func forbidden(file string, err error) error {
	return &gpu.Advice{
		What: "gpuwhy is not allowed to run " + file,
		Try:  "give gpuwhy's user permission to execute it",
		Err:  fmt.Errorf("%w: %w", gpu.ErrNotPermitted, err),
	}
}

// find returns the program's file.
func find(path string) (string, error) {
	if path == "" {
		path = "nvidia-smi"
	}
	file, err := exec.LookPath(path)
	for _, other := range otherPlaces() {
		if err == nil || path != "nvidia-smi" {
			break
		}
		file, err = exec.LookPath(other)
	}
	if errors.Is(err, fs.ErrPermission) {
		return "", forbidden(path, err)
	}
	if err != nil {
		try := "install the NVIDIA driver, which includes it"
		if runtime.GOOS == "linux" {
			try += "; in a container, start it with the NVIDIA runtime (--gpus all)"
		}
		return "", &gpu.Advice{
			What: path + " was not found",
			Try:  try,
			Err:  fmt.Errorf("%w: %w", gpu.ErrNoLibrary, err),
		}
	}
	return file, nil
}

func otherPlaces() []string {
	if runtime.GOOS == "windows" {
		return []string{
			filepath.Join(os.Getenv("SystemRoot"), `System32\nvidia-smi.exe`),
			filepath.Join(os.Getenv("ProgramFiles"), `NVIDIA Corporation\NVSMI\nvidia-smi.exe`),
		}
	}
	return []string{
		"/usr/bin/nvidia-smi",
		"/usr/lib/wsl/lib/nvidia-smi",
		"/usr/local/nvidia/bin/nvidia-smi",
		"/run/nvidia/driver/usr/bin/nvidia-smi",
		"/run/current-system/sw/bin/nvidia-smi",
	}
}

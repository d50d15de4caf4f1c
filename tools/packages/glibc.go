package main

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// glibcFloor is the oldest glibc that the packages promise to run on (deploy/packages/nfpm.yaml).
const glibcFloor = "2.34"

// checkLibraries reads what a program asks the loader for: at most the floor's glibc, or nothing at all.
func checkLibraries(program string, static bool) (err error) {
	file, err := elf.Open(program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	libraries, err := file.ImportedLibraries()
	if err != nil {
		return err
	}
	if static != (len(libraries) == 0) {
		return fmt.Errorf("it asks for the libraries %v", libraries)
	}
	if static {
		return nil
	}
	symbols, err := file.ImportedSymbols()
	if err != nil {
		return err
	}
	for _, s := range symbols {
		version, found := strings.CutPrefix(s.Version, "GLIBC_")
		if found && compareVersions(version, glibcFloor) > 0 {
			return fmt.Errorf("it asks for %s of glibc %s, and the packages promise to run on %s", s.Name, version, glibcFloor)
		}
	}
	return nil
}

func compareVersions(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(a, b string) int {
		m, _ := strconv.Atoi(a)
		n, _ := strconv.Atoi(b)
		return cmp.Compare(m, n)
	})
}

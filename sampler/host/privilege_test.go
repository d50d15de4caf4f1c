package host

import (
	"os"
	"os/exec"
	"testing"
)

// bound is set if the test runs as a user without access to closed files.
const bound = "GPUWHY_TEST_BOUND_BY_PERMISSIONS"

// boundByPermissions reports whether the test's user has no access to closed files. Root always has: then it runs the test again as a root
// without that right, and fails if that run fails.
func boundByPermissions(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 || os.Getenv(bound) != "" {
		return true
	}
	const rights = "-dac_override,-dac_read_search"
	again := exec.CommandContext(t.Context(), "setpriv", "--bounding-set="+rights, "--inh-caps="+rights,
		os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	again.Env = append(os.Environ(), bound+"=1")
	if out, err := again.CombinedOutput(); err != nil {
		t.Errorf("without root's rights: %v\n%s", err, out)
	}
	return false
}

package main

import (
	"strings"
	"testing"
)

// A recorder needs a fleet and a database, and says so.
func TestRecordNeedsAFleet(t *testing.T) {
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"record", "--history=postgres://127.0.0.1/gpuwhy"}, "--fleet"},
		{[]string{"record", "--fleet=nats://127.0.0.1:1", "--history=off"}, "--history postgres://"},
		{[]string{"record", "--fleet=nats://127.0.0.1:1", "--fleet-credentials=/nowhere/x.creds", "--history=sqlite", "--state-dir=" + t.TempDir()}, "/nowhere/x.creds"},
	} {
		if r := command(t, nil, test.args...); r.code == exitOK || !strings.Contains(r.stderr, test.says) {
			t.Errorf("%q: exit status %d: %s", test.args, r.code, r.stderr)
		}
	}
}

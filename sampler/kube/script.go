package kube

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The script runs commands in the container: "7 --query-gpu=… …" runs nvidia-smi and prints its output between two lines with a secret
// mark. "7 processes 12 34" prints what /proc has about these processes, each line of a file after a letter. Commands come from the
// arguments or, without any, from standard input.
//
// Cloud machines have nvidia-smi outside PATH. Not every container has timeout(1).
const script = `export LC_ALL=C LANG=C NVSMI_SHOW_ALL_DEVICES=1
export PATH="$PATH:/usr/local/nvidia/bin:/run/nvidia/driver/usr/bin:/usr/lib/wsl/lib"
[ -d /usr/local/nvidia/lib64 ] && export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64"
set -f
limit=
timeout -s KILL 5 true >/dev/null 2>&1 && limit="timeout -s KILL LIMIT"
processes() {
	echo "n $(readlink /proc/self/ns/pid) $(readlink /proc/self/ns/cgroup)"
	sed -n 's/^btime /b /p' /proc/stat
	for p do
		echo "p $p"
		sed 's/^/s /' /proc/$p/stat 2>/dev/null
		sed -n 's/^Uid:/u /p' /proc/$p/status 2>/dev/null
		sed 's/^/c /' /proc/$p/cgroup 2>/dev/null
	done
}
run() {
	id=$1
	shift
	echo "MARK begin $id"
	if [ "$1" = processes ]; then
		shift
		processes "$@"
	else
		$limit nvidia-smi "$@" 2>&1 </dev/null
	fi
	code=$?
	echo
	echo "MARK end $id $code"
}
if [ $# -gt 0 ]; then
	for line do
		run $line
	done
else
	while read -r line; do
		run $line
	done
fi
`

// newScript returns a script whose commands may take up to limit, and its mark.
func newScript(limit time.Duration) (text, mark string) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	mark = "gpuwhy:" + hex.EncodeToString(random[:])
	return strings.NewReplacer("MARK", mark, "LIMIT", strconv.Itoa(int(max(limit/time.Second, 1)))).Replace(script), mark
}

// A command is one line for the script.
type command struct {
	id   int
	args []string
}

func (c *command) String() string { return fmt.Sprint(c.id) + " " + strings.Join(c.args, " ") }

// output splits the script's output by command. It tolerates writes after nobody reads it any more.
type output struct {
	mark  []byte
	print func(id int, text []byte) // of a command: complete lines
	ended func(id, code int)

	mu    sync.Mutex
	over  bool
	begun bool // the script has printed something
	id    int  // the command that prints now; 0: none
	rest  []byte
	cut   bool
	noise []byte // output outside of commands
	total int    // bytes of this command
}

const (
	longestLine   = 64 << 10
	longestOutput = 16 << 20 // of a command; the XML of 16 GPUs has 400 KiB
	mostNoise     = 2 << 10
)

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(b)
	for len(b) > 0 && !o.over {
		line, after, whole := bytes.Cut(b, []byte("\n"))
		if o.cut = o.cut || len(o.rest)+len(line) > longestLine; !o.cut {
			o.rest = append(o.rest, line...)
		}
		if b = after; !whole {
			break
		}
		if !o.cut {
			o.line(o.rest)
		}
		o.rest, o.cut = o.rest[:0], false
	}
	return n, nil
}

func (o *output) line(line []byte) {
	if rest, marked := bytes.CutPrefix(bytes.TrimRight(line, "\r"), o.mark); marked {
		var id, code int
		if n, _ := fmt.Sscanf(string(rest), " begin %d", &id); n == 1 {
			o.begun, o.id, o.total = true, id, 0
		} else if n, _ := fmt.Sscanf(string(rest), " end %d %d", &id, &code); n == 2 && id == o.id {
			o.id = 0
			o.ended(id, code)
		}
		return
	}
	if o.id == 0 {
		o.noise = append(o.noise, line[:min(len(line), mostNoise-len(o.noise))]...)
		return
	}
	if o.total += len(line) + 1; o.total <= longestOutput {
		o.print(o.id, append(bytes.Clone(line), '\n'))
	}
}

// end drops all later output.
func (o *output) end() {
	o.mu.Lock()
	o.over = true
	o.mu.Unlock()
}

// said returns the output outside of commands.
func (o *output) said() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return clean(string(o.noise))
}

// started reports whether the script has begun a command.
func (o *output) started() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.begun
}

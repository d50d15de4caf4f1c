package smi

import (
	"bytes"
	"strings"

	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
)

const longestLine = 16 << 10 // a line with all fields has 1 KiB

// lines calls f with each line that is written, without its line end. It skips lines longer than nvidia-smi prints.
type lines struct {
	f       func(string)
	rest    []byte
	tooLong bool
}

func (l *lines) Write(b []byte) (int, error) {
	n := len(b)
	for {
		line, after, whole := bytes.Cut(b, []byte("\n"))
		if l.tooLong = l.tooLong || len(l.rest)+len(line) > longestLine; l.tooLong {
			l.rest = l.rest[:0]
		} else {
			l.rest = append(l.rest, line...)
		}
		if !whole {
			return n, nil
		}
		if !l.tooLong {
			l.f(strings.TrimRight(string(l.rest), "\r"))
		}
		l.rest, l.tooLong, b = l.rest[:0], false, after
	}
}

// end passes on what came after the last line end as a line.
func (l *lines) end() {
	if len(l.rest) > 0 && !l.tooLong {
		l.f(string(l.rest))
	}
	l.rest = nil
}

// limited keeps the first bytes written, and records whether there were more.
type limited struct {
	bytes.Buffer
	most int
	cut  bool
}

func (l *limited) Write(b []byte) (int, error) {
	kept := b[:min(len(b), max(l.most-l.Len(), 0))]
	l.cut = l.cut || len(kept) < len(b)
	l.Buffer.Write(kept)
	return len(b), nil
}

// clean makes the program's text fit for people and the log: printable, of bounded length.
func clean(s string) string { return nvidia.Clean(s) }

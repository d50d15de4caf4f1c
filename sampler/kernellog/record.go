package kernellog

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// A record is one message of the kernel.
type record struct {
	seq    uint64
	uptime time.Duration // since the machine booted, without sleep
	text   string        // with its line breaks; may be any bytes
}

// parseRecord parses "3,1234,5678901,-;text" (Documentation/ABI/testing/dev-kmsg); ok is false for records that programs wrote to the log,
// since they could claim anything.
func parseRecord(line string) (r record, ok bool) {
	head, text, ok := strings.Cut(line, ";")
	fields := strings.Split(head, ",")
	if !ok || len(fields) < 3 {
		return r, false
	}
	priority, err := strconv.ParseUint(fields[0], 10, 32)
	seq, err2 := strconv.ParseUint(fields[1], 10, 64)
	micros, err3 := strconv.ParseInt(fields[2], 10, 64)
	const levels = 8 // lower numbers are the kernel's; a program's record has a facility above
	if err != nil || err2 != nil || err3 != nil || priority >= levels || micros < 0 || micros > int64(maxUptime/time.Microsecond) {
		return r, false
	}
	return record{seq, time.Duration(micros) * time.Microsecond, unescape(text)}, true
}

const maxUptime = 100 * 365 * 24 * time.Hour

// unescape undoes the log's \xNN for unprintable characters.
func unescape(text string) string {
	if !strings.Contains(text, `\x`) {
		return text
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, `\x`)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if len(rest) < 2 {
			b.WriteString(`\x` + rest)
			return b.String()
		}
		if c, err := strconv.ParseUint(rest[:2], 16, 8); err == nil {
			b.WriteByte(byte(c))
		} else {
			b.WriteString(`\x` + rest[:2])
		}
		text = rest[2:]
	}
}

// lines splits input into lines. /dev/kmsg returns complete records; a file or a pipe may not.
type lines struct{ rest []byte }

// mostLine is longer than any record of the kernel (8 KiB).
const mostLine = 32 << 10

func (l *lines) cut(chunk []byte, visit func(line string)) {
	l.rest = append(l.rest, chunk...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			break
		}
		visit(string(line))
		l.rest = rest
	}
	if len(l.rest) > mostLine {
		l.rest = nil
	}
	l.rest = bytes.Clone(l.rest)
}

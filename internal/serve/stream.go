package serve

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/klauspost/compress/gzip"

	"github.com/gpuwhy/gpuwhy/internal/negotiate"
)

const typeCSV = "text/csv; charset=utf-8"

// PrefersCSV reports whether a client prefers a table to JSON.
func PrefersCSV(r *http.Request) bool {
	return negotiate.Type(r.Header, typeJSON, "text/csv") == "text/csv"
}

// StreamJSON sends a list as it is read, as the last member of head, which has it empty. An error before the first element is
// returned, to be an answer of its own; after that the connection is cut, so that nobody takes a part for the whole.
func StreamJSON[T any](w http.ResponseWriter, r *http.Request, head any, list iter.Seq2[T, error]) error {
	begin, err := json.Marshal(head)
	if err != nil {
		return err
	}
	open, found := bytes.CutSuffix(begin, []byte("[]}"))
	if !found {
		return errors.New("the list is not the last member of its answer")
	}
	before := append(open, '[')
	return transmit(w, r, typeJSON, list, func(out io.Writer, e *T) error {
		text, err := json.Marshal(e)
		if err == nil {
			_, err = out.Write(append(before, text...))
		}
		before = []byte(",\n")
		return err
	}, func(out io.Writer, some bool) error {
		end := []byte("]}\n")
		if !some {
			end = append(before, end...)
		}
		_, err := out.Write(end)
		return err
	})
}

// StreamCSV sends rows as they are read, as a table that is saved under the file's name; errors are those of [StreamJSON].
func StreamCSV(w http.ResponseWriter, r *http.Request, file string, columns []string, rows iter.Seq2[[]string, error]) error {
	w.Header().Set("Content-Disposition", `attachment; filename="`+FileName(file)+`"`)
	var out *csv.Writer
	line := func(dst io.Writer, row []string) error {
		if out == nil {
			out = csv.NewWriter(dst)
			if err := out.Write(columns); err != nil {
				return err
			}
		}
		if row == nil {
			out.Flush()
			return out.Error()
		}
		for i := range row {
			row[i] = plain(row[i])
		}
		return out.Write(row)
	}
	return transmit(w, r, typeCSV, rows, func(dst io.Writer, row *[]string) error { return line(dst, *row) },
		func(dst io.Writer, _ bool) error { return line(dst, nil) })
}

// FileName is a name that no system and no header takes for anything else.
func FileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || r != '-' && r != '.' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return '_'
		}
		return r
	}, name)
}

// plain keeps a table calculation from taking a text for a formula, and a terminal from taking it for a command: what can't be
// printed, such as ESC or a line feed in a name, becomes U+FFFD.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
	if _, err := strconv.ParseFloat(text, 64); err != nil && text != "" && strings.ContainsRune("=+-@", rune(text[0])) {
		return "'" + text
	}
	return text
}

// transmit sends elements one after the other, and the end: some says whether there were any.
func transmit[T any](
	w http.ResponseWriter, r *http.Request, contentType string, list iter.Seq2[T, error], one func(io.Writer, *T) error, end func(w io.Writer, some bool) error,
) error {
	var out io.Writer
	w = &patient{ResponseWriter: w}
	for e, err := range list {
		if err != nil && out == nil {
			return err
		}
		if out == nil {
			out = begin(w, r, contentType)
			defer done(out)
		}
		if err == nil {
			err = one(out, &e)
		}
		if err != nil {
			return &cutError{err}
		}
		if r.Method == http.MethodHead {
			return nil
		}
	}
	some := out != nil
	if !some {
		out = begin(w, r, contentType)
		defer done(out)
	}
	if err := end(out, some); err != nil {
		return &cutError{err}
	}
	if zw, zipped := out.(*gzip.Writer); zipped {
		if err := zw.Close(); err != nil {
			return &cutError{err}
		}
	}
	return nil
}

// A cutError ends an answer that has begun.
type cutError struct{ error }

func (e *cutError) Unwrap() error { return e.error }

// A patient writer gives each part of an answer the time that a whole answer usually has, so a long answer may take long, as long as
// somebody reads it.
type patient struct {
	http.ResponseWriter
	renewed time.Time
}

func (p *patient) Write(b []byte) (int, error) {
	if now := time.Now(); now.Sub(p.renewed) > time.Second {
		p.renewed = now
		_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(now.Add(writeTimeout)) // not every writer has one
	}
	return p.ResponseWriter.Write(b)
}

// begin sends the header, and returns where the body goes.
func begin(w http.ResponseWriter, r *http.Request, contentType string) io.Writer {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h["Cache-Control"] = cacheNever
	addVary(h, byEncoding)
	switch {
	case r.Method == http.MethodHead:
		return io.Discard
	case negotiate.Gzip(r.Header):
		h.Set("Content-Encoding", "gzip")
		zw := zippers.Get().(*gzip.Writer)
		zw.Reset(w)
		return zw
	default:
		return w
	}
}

// done gives back what begin has taken.
func done(out io.Writer) {
	if zw, zipped := out.(*gzip.Writer); zipped {
		zw.Reset(io.Discard)
		zippers.Put(zw)
	}
}

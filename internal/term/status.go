package term

import (
	"io"
	"sync"
	"time"
	"unicode/utf8"
)

// patience is how long a command works before its status is shown, and between is the time between two of them.
const (
	patience = time.Second
	between  = 250 * time.Millisecond
)

// Notes is where a command writes messages for people, and at a terminal what takes so long, in a last line that comes and goes.
type Notes struct {
	screen Screen

	mu    sync.Mutex
	shown bool // the last line is a status
}

// NewNotes returns notes on w, usually the standard error.
func NewNotes(w io.Writer) *Notes { return &Notes{screen: ScreenOf(w)} }

// Terminal reports whether a person sees the notes in a terminal.
func (n *Notes) Terminal() bool { return n.screen.Terminal }

// erase goes to the begin of the line, and clears it.
const erase = "\r\x1b[K"

// Write writes messages, which end with a line break. A status gives way to them.
func (n *Notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.hide(); err != nil {
		return 0, err
	}
	return n.screen.Write(p)
}

func (n *Notes) hide() error {
	if !n.shown {
		return nil
	}
	n.shown = false
	_, err := io.WriteString(n.screen, erase)
	return err
}

// During shows at a terminal that a command is at work, from the first second until the returned function is called. amount says how
// far it is; nil shows the seconds.
func (n *Notes) During(what string, amount func(passed time.Duration) string) (end func()) {
	if !n.screen.Terminal {
		return func() {}
	}
	if amount == nil {
		amount = func(passed time.Duration) string { return passed.Truncate(time.Second).String() }
	}
	stop := make(chan struct{})
	var showing sync.WaitGroup
	began := time.Now()
	showing.Go(func() {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		for {
			select {
			case <-stop:
				return
			case <-timer.C:
				n.show(what + ": " + amount(time.Since(began)))
				timer.Reset(between)
			}
		}
	})
	return sync.OnceFunc(func() {
		close(stop)
		showing.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		_ = n.hide() // the messages after it tell of an error
	})
}

func (n *Notes) show(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	text = "gpuwhy: " + text
	if n.screen.Width > 0 {
		text = shortened(text, n.screen.Width-1)
	}
	_, err := io.WriteString(n.screen, erase+n.screen.Styled(Faint, text))
	n.shown = err == nil
}

// shortened is a text of at most width columns.
func shortened(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(width-1, 0)]) + "…"
}

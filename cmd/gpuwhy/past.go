package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"

	"github.com/gpuwhy/gpuwhy/internal/term"
)

// pastFlags are those of all commands about the past.
type pastFlags struct {
	TZ      string `name:"tz" placeholder:"ZONE" help:"The time zone in which times are understood and shown, such as Europe/Berlin; this machine's by default."`
	JSON    bool   `name:"json" help:"Print what the API answers."`
	CSV     bool   `name:"csv" help:"Print a table for other programs."`
	URL     string `name:"url" placeholder:"URL" help:"Where gpuwhy is served; by default what --listen and --base-path say, and the database of --history where nobody listens there."`
	Machine string `placeholder:"NODE" help:"One machine of a fleet; all that the database has by default."`
}

type pastCommand struct {
	When string `arg:"" optional:"" default:"last night" help:"When: \"last night\" (22:00 to 06:00, the default), yesterday, 1.5h, 22:00-06:00 (the newest that has begun), \"yesterday at 22:00\" (until now), \"yesterday 22:00 to 06:00\", monday (that day), \"since monday\" (until now), RFC 3339 also without seconds and zone, or seconds since 1970."`
	GPU  string `arg:"" optional:"" help:"One GPU, by index or UUID; all by default."`
	pastFlags
}

// Run prints what went on over a span of time.
func (c pastCommand) Run(env *environment) error {
	return answerOf(env, c.pastFlags, "/api/gpu/why", url.Values{"from": {c.When}, "gpu": given(c.GPU)}, term.Past)
}

type sessionsCommand struct {
	When string `arg:"" optional:"" default:"24h" help:"When, as for gpuwhy past; the last 24 hours by default."`
	GPU  string `help:"One GPU, by index or UUID; all by default."`
	User string `help:"One user; all by default."`
	pastFlags
}

// Run prints the processes that were on GPUs.
func (c sessionsCommand) Run(env *environment) error {
	return answerOf(env, c.pastFlags, "/api/gpu/sessions", url.Values{"from": {c.When}, "gpu": given(c.GPU), "user": given(c.User)}, term.Sessions)
}

type usageCommand struct {
	When  string `arg:"" optional:"" help:"When, as for gpuwhy past; this month, from its first day until now, by default."`
	By    string `default:"user" enum:"user,process,job,pod,container,unit,gpu,node,cluster" help:"What to sum by: user, process, job, pod, container, unit (of systemd), gpu, node or cluster. The longest held come first, also of GPUs."`
	Since string `placeholder:"WHEN" help:"When it begins; it ends now: --since monday is from Monday until now, and the argument monday is that day alone."`
	User  string `help:"One user; all by default."`
	pastFlags
}

// Run prints who used GPUs.
func (c usageCommand) Run(env *environment) error {
	if c.When != "" && c.Since != "" {
		return usageError{errors.New("give the span of time once: as an argument, or with --since")}
	}
	q := url.Values{"from": {cmp.Or(c.When, since(c.Since), "this month")}, "by": {c.By}, "user": given(c.User)}
	return answerOf(env, c.pastFlags, "/api/gpu/usage", q, term.Usage)
}

// since is the span from a time until now; empty without one.
func since(begin string) string {
	if begin == "" {
		return ""
	}
	return "since " + begin
}

// pastArgs lets a span of time begin with a minus, as in "gpuwhy past -5m", which would be a flag. None of ours begins with a digit,
// and space around a span is nothing.
func pastArgs(args []string) []string {
	command := slices.IndexFunc(args, func(a string) bool { return slices.Contains([]string{"past", "sessions", "usage", "history"}, a) })
	if command < 0 {
		return args
	}
	args = slices.Clone(args)
	for i, a := range args[command:] {
		if a == "--" {
			break
		}
		if len(a) > 1 && a[0] == '-' && a[1] >= '0' && a[1] <= '9' {
			args[command+i] = " " + a
		}
	}
	return args
}

// given is a parameter that is left out if it is empty.
func given(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

// answerOf prints what gpuwhy answers.
func answerOf[T any](env *environment, flags pastFlags, path string, q url.Values, show func(io.Writer, *T) error) error {
	if flags.JSON && flags.CSV {
		return usageError{errors.New("--json and --csv can't be used together")}
	}
	if flags.CSV {
		q.Set("format", "csv")
	}
	if flags.Machine != "" {
		q.Set("node", flags.Machine)
	}
	q.Set("tz", zoneAsked(flags.TZ))
	contentType := typeJSON
	if flags.CSV {
		contentType = typeCSV
	}
	answer, err := askPast(env.ctx, env, flags.URL, path+"?"+q.Encode(), contentType)
	if err != nil {
		return err
	}
	if flags.CSV {
		if _, err = io.Copy(env.stdout, answer); err != nil {
			err = fmt.Errorf("what is printed is not all: %w", err)
		}
		return errors.Join(err, answer.Close())
	}
	into, err := decoded[T](answer)
	if err != nil {
		return err
	}
	if flags.JSON {
		return term.JSON(env.stdout, into)
	}
	return show(env.stdout, into)
}

// What answers about the past are.
const typeJSON, typeCSV = "application/json", "text/csv"

// decoded reads an answer to its end, and closes it.
func decoded[T any](answer io.ReadCloser) (*T, error) {
	into := new(T)
	if err := errors.Join(json.NewDecoder(answer).Decode(into), answer.Close()); err != nil {
		return nil, fmt.Errorf("the answer can't be read: %w", err)
	}
	return into, nil
}

// zoneAsked is the zone of --tz, or else this machine's.
func zoneAsked(tz string) string { return cmp.Or(tz, localZone()) }

package sqlite

import (
	"database/sql/driver"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/store"
)

// sessionBrief are the columns of sessions that are asked for in brief, see [store.Query]: SQLite sorts and hands over half as much.
const sessionBrief = "device, pid, since, until, user, name, program, container, pod, unit, job, outcome, seen, peak_memory, peak_memory_quality, " +
	"sm_seconds, sm_known, joules, joules_known, joules_method, busy, accounted"

// scanned lets SQLite read all sessions in the order of the file, in place of one after another by an index, where most are asked for.
func scanned(q *store.Query) string {
	if q.To.Sub(q.From) < 100*day || len(q.Keys) > 0 && len(q.Keys) < 4 {
		return ""
	}
	return " NOT INDEXED"
}

// briefSessionOf reads these columns.
func briefSessionOf(names map[int64]store.Key, l *listener, row []driver.Value) store.Session {
	return store.Session{
		SessionKey: store.SessionKey{Key: names[integer(row[0])], PID: int(integer(row[1]))},
		From:       moment(row[2]), To: moment(row[3]),
		User: l.text(row[4]), Name: l.text(row[5]), Program: l.text(row[6]), Container: l.text(row[7]), Pod: l.text(row[8]),
		Unit: l.text(row[9]), Job: l.text(row[10]), Outcome: store.Outcome(text(row[11])), Seen: time.Duration(integer(row[12])),
		PeakMemory: memory(row[13], l.text(row[14])), SMSeconds: float(row[15]), SMKnown: time.Duration(integer(row[16])),
		Joules: float(row[17]), JoulesKnown: time.Duration(integer(row[18])), JoulesMethod: l.text(row[19]),
		Busy: time.Duration(integer(row[20])), Accounted: integer(row[21]) != 0,
	}
}

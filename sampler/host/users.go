package host

import (
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"
)

// userFor is how long users' names are kept.
const userFor = 10 * time.Minute

// users knows the names of user ids.
type users struct {
	passwd string // the file
	names  map[int]string
	since  time.Time // of names
}

// name returns a user's name, or the number if there is none.
func (u *users) name(uid int, now time.Time) string {
	if now.Sub(u.since).Abs() >= userFor {
		u.names, u.since = map[int]string{}, now
	}
	name, ok := u.names[uid]
	if !ok {
		name = u.lookUp(strconv.Itoa(uid))
		u.names[uid] = name
	}
	return name
}

// lookUp searches the file first, which is cheap, then asks the system.
func (u *users) lookUp(uid string) string {
	if text, err := os.ReadFile(u.passwd); err == nil {
		for line := range strings.Lines(string(text)) {
			fields := strings.SplitN(line, ":", 4) // name:password:uid:…
			if len(fields) == 4 && fields[2] == uid {
				return clean(fields[0])
			}
		}
	}
	if found, err := user.LookupId(uid); err == nil {
		return clean(found.Username)
	}
	return uid
}

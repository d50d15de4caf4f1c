package host

import (
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"
)

// userFor is how long a user's name is kept.
const userFor = 10 * time.Minute

// users knows the names of user ids.
type users struct {
	passwd string // the file
	local  bool   // this machine's: its name service may be asked too
	names  map[int]userName
}

type userName struct {
	name string
	at   time.Time
}

// name returns a user's name, or the number where there is none.
func (u *users) name(uid int, now time.Time) string {
	known, ok := u.names[uid]
	if !ok || now.Sub(known.at) >= userFor {
		known = userName{u.lookUp(strconv.Itoa(uid)), now}
		u.names[uid] = known
	}
	return known.name
}

// lookUp looks in the file first, which is cheap and works below another root, then asks
// the system.
func (u *users) lookUp(uid string) string {
	if text, err := os.ReadFile(u.passwd); err == nil {
		for line := range strings.Lines(string(text)) {
			fields := strings.SplitN(line, ":", 4) // name:password:uid:…
			if len(fields) == 4 && fields[2] == uid {
				return clean(fields[0])
			}
		}
	}
	if u.local {
		if found, err := user.LookupId(uid); err == nil {
			return clean(found.Username)
		}
	}
	return uid
}

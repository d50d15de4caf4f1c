package gpu

import "errors"

// Errors of a driver or a device. Tell them apart with errors.Is.
var (
	ErrNoDriver        = errors.New("no driver answered") // none of this kind is installed or loaded
	ErrNoLibrary       = errors.New("no usable library of a driver found")
	ErrVersionMismatch = errors.New("driver and library versions differ") // usually after an update without a restart
	ErrNotPermitted    = errors.New("not permitted to talk to the driver")
	ErrNotAnswering    = errors.New("the driver is not answering") // a call has not returned in time
	ErrSlow            = errors.New("slow to answer")              // it answers, but after its deadline
	ErrNoDevices       = errors.New("the driver finds no device")  // and answers
	ErrNoCard          = errors.New("no card of this vendor is in the machine")
	ErrNeedsAction     = errors.New("the driver asks for something to be done about the device")
	ErrNotListed       = errors.New("the driver does not list a card that the kernel has")
	ErrForeignPIDs     = errors.New("pids belong to another namespace") // so none can be looked up
)

// sentinels are all errors above.
var sentinels = []error{
	ErrNoDriver, ErrNoLibrary, ErrVersionMismatch, ErrNotPermitted, ErrNotAnswering, ErrSlow, ErrNoDevices, ErrNoCard,
	ErrNeedsAction, ErrNotListed, ErrForeignPIDs,
}

// Advice is an error for people: what happened and what to do. Find it with
// errors.AsType[*Advice]. The zero Advice says nothing.
type Advice struct {
	What string // a clause without a full stop: "the driver is not loaded"
	Try  string // what a person can do: "install it, or look for it in the kernel log"
	Err  error  // for the log and errors.Is; may be nil
}

// Error returns the text and, for the log, the cause.
func (a *Advice) Error() string {
	if a.Err == nil {
		return a.Text()
	}
	return a.Text() + " (" + a.Err.Error() + ")"
}

// Unwrap returns the cause.
func (a *Advice) Unwrap() error { return a.Err }

// Text is what people read: "what happened: what to try".
func (a *Advice) Text() string {
	if a.Try == "" {
		return a.What
	}
	return a.What + ": " + a.Try
}

// IsZero reports whether the advice says nothing.
func (a Advice) IsZero() bool { return a.What == "" && a.Try == "" && a.Err == nil }

// AsAdvice returns the advice in err or, if there is none, one that only says
// "internal error"; the details are for the log.
func AsAdvice(err error) Advice {
	if a, ok := errors.AsType[*Advice](err); ok {
		return *a
	}
	return Advice{What: "internal error", Try: "see gpuwhy's log", Err: err}
}

package explain

import "strconv"

// xid is what an error code of the driver means, and what to do.
type xid struct{ what, try string }

const (
	tryProgram = "Look at what the program did: its log, its last change, and whether it runs on another GPU."
	tryReset   = "Reset the GPU while nothing uses it (nvidia-smi --gpu-reset), or restart the machine. If it comes again, have the GPU tested."
	tryMemory  = "The driver replaces the broken memory at the next reset: reset the GPU while nothing uses it, or restart the machine."
	tryLink    = "Reset all GPUs that are linked, or restart the machine; if it comes again, have links and boards tested."
	tryBus     = "Check its power cables and seating and its temperature, and restart the machine. If it comes again, try the card in another machine."
)

// xids are the codes that people meet, from NVIDIA's catalog of XID errors.
var xids = map[int]xid{
	8:   {"the GPU stopped processing", tryReset},
	13:  {"a program's work failed on the GPU", tryProgram},
	31:  {"a program used a wrong memory address", tryProgram},
	32:  {"bad commands reached the GPU", tryReset},
	38:  {"the driver's firmware failed", tryReset},
	43:  {"a program's work stopped the GPU", tryProgram},
	45:  {"a program's work was ended early, most often after another error", tryProgram},
	48:  {"memory error that could not be corrected", tryReset},
	56:  {"the display engine failed", tryReset},
	57:  {"a display link failed", tryReset},
	61:  {"the GPU's own controller stopped", tryReset},
	62:  {"the GPU's own controller halted", tryReset},
	63:  {"broken memory was noted for replacement", tryMemory},
	64:  {"broken memory could not be noted for replacement", "Have the GPU replaced."},
	66:  {"the driver made an illegal access", tryReset},
	68:  {"the video engine failed", tryProgram},
	69:  {"a graphics class failed", tryProgram},
	74:  {"an NVLink failed", tryLink},
	79:  {"the GPU has fallen off the bus", tryBus},
	92:  {"many memory errors that could be corrected", "Keep an eye on it; have the GPU tested if the number grows."},
	94:  {"memory error that hit one program", "The program has ended or must be restarted; reset the GPU when it is free."},
	95:  {"memory error that hit all programs", tryReset},
	109: {"a change of work took too long", tryReset},
	119: {"the GPU's system processor did not answer", tryReset},
	120: {"the GPU's system processor failed", tryReset},
	121: {"the link between chips had errors that were corrected", "Keep an eye on it."},
	136: {"the link between chips could not be trained", tryLink},
	137: {"an NVLink found privilege errors", tryLink},
	140: {"memory error that could not be recovered", tryReset},
	143: {"the GPU could not start", tryReset},
	145: {"an NVLink failed", tryLink},
	149: {"an NVLink failed", tryLink},
	154: {"the GPU needs to be recovered", tryReset},
}

// XID says what an error code of the driver means, such as "XID 79 (the GPU has
// fallen off the bus)", and what to do about it, a sentence. Of a code that is
// not known it gives the number alone.
func XID(code int) (what, try string) {
	what = "XID " + strconv.Itoa(code)
	x, known := xids[code]
	if !known {
		return what, "Look the code up in NVIDIA's list of XID errors."
	}
	return what + " (" + x.what + ")", x.try
}

package control

// ListenAs listens under a name.
var ListenAs = listen

// NameOf returns the name of a directory's socket.
func NameOf(dir string) (string, error) {
	name, _, err := nameOf(dir)
	return name, err
}

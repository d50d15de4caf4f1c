package peer

import "net"

// Search returns the user of a connection's other end as the lists of a folder have it.
func Search(conn net.Conn, folder string) (UID, error) {
	local, remote := conn.LocalAddr().(*net.TCPAddr), conn.RemoteAddr().(*net.TCPAddr)
	return pair{unmapped(remote.AddrPort()), unmapped(local.AddrPort())}.search(folder)
}

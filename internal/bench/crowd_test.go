//go:build !race && linux

package bench

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// A crowdConfig says what the viewers of one process do, each from its own address.
type crowdConfig struct {
	Addr, Path string
	Viewers    int
	Does       string
	Deflate    bool   // take compressed messages
	TLS        bool   // encrypt; only for viewers that read
	Delta      bool   // take patches
	Header     string // whole lines that requests for the path have beside Host
	Again      bool   // ask for the path if it has changed
}

// What viewers do. Viewers that read also answer pings.
const (
	doesRead    = "read"
	doesNothing = "nothing" // never read
	doesTrickle = "trickle" // read 200 bytes a second
	doesAsk     = "ask"     // read, and once a second each asks for a reading
	doesCome    = "come"    // come and go on command
	doesGet     = "get"     // no WebSocket: ask for the path again and again, when told
	doesVanish  = "vanish"  // read, and answer no ping
	doesConnect = "connect" // no more than that
	doesDrip    = "drip"    // send a request of which a byte comes each second
	doesPour    = "pour"    // send a request with a header that does not end
)

// isViewer reports whether such a viewer has a WebSocket.
func isViewer(does string) bool {
	return !slices.Contains([]string{doesGet, doesConnect, doesDrip, doesPour}, does)
}

// An arrival is when a message arrived, by the machine's clock in ns.
type arrival struct {
	Stamp       int64
	Count       int
	First, Last int64
	Bytes       int // of the payload, as it came
}

// counted is what arrived in a period.
type counted struct {
	Messages, Bytes int
	Missed          int // updates since the beginning whose number was not the next one
}

// gotten is the result of requests for a path.
type gotten struct{ Answers, Same int } // all, and those of them that are 304

// answers is the result of requests for readings.
type answers struct {
	Asked, Got int
	Waits      []time.Duration // sorted
	Readings   int             // that were in answers, each counted once
	TooOld     int             // answers from readings that began before the request
}

// A crowd is many viewers that cost little: one goroutine reads from all sockets.
type crowd struct {
	crowdConfig
	poll int // of epoll
	buf  []byte

	mu       sync.Mutex
	came     *sync.Cond
	viewers  []*viewer
	arrivals map[int64]*arrival
	opened   map[string][]byte // beginnings of messages by those of their compressed bytes
	counted  counted
	ended    int
	answers  answers
	readings map[int64]bool // by sequence number
	getting  bool
	gotten   gotten
}

// A viewer is one connection, with its position in the stream.
type viewer struct {
	fd     int
	conn   net.Conn // over TLS, where there is no fd
	stream stream
	asked  time.Time // zero if no answer is awaited
	rest   int       // bytes of an answer of HTTP that have not come
	etag   []byte    // of the last one
	seq    int64     // of the last update
	closed bool
}

// runCrowd runs in the process of a crowd. It says hello once all are connected.
func runCrowd(cfg *crowdConfig) error {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	c := &crowd{crowdConfig: *cfg, poll: poll, buf: make([]byte, 256<<10), arrivals: map[int64]*arrival{}, opened: map[string][]byte{}, readings: map[int64]bool{}}
	c.came = sync.NewCond(&c.mu)
	if slices.Contains([]string{doesRead, doesAsk, doesGet, doesVanish}, c.Does) {
		go func() { panic(c.read()) }()
	}
	if c.Does != doesCome {
		for i := range c.Viewers {
			if err := c.connect(i); err != nil {
				return fmt.Errorf("viewer %d: %w", i, err)
			}
		}
	}
	switch c.Does {
	case doesTrickle:
		go c.trickle()
	case doesDrip:
		go c.send(time.Second, []byte("GET /"+strings.Repeat("a", 100_000)), 1)
	case doesPour:
		go c.send(10*time.Millisecond, []byte("GET / HTTP/1.1\r\nHost: a\r\nA: "+strings.Repeat("a", 1<<20)), 64<<10)
	}
	return converse(len(c.viewers), c.command)
}

// command executes a command of the benchmark.
func (c *crowd) command(words []string) (any, error) {
	n, err := number(words, 1)
	if err != nil {
		return nil, err
	}
	switch words[0] {
	case "await": // STAMP: until all have it, or for some time
		return c.await(n), nil
	case "count": // what comes in so many seconds
		c.mu.Lock()
		before := c.counted
		c.mu.Unlock()
		time.Sleep(time.Duration(n) * time.Second) // what is measured is a span of time
		c.mu.Lock()
		defer c.mu.Unlock()
		return counted{c.counted.Messages - before.Messages, c.counted.Bytes - before.Bytes, c.counted.Missed}, nil
	case "come": // A SECOND, for so many seconds
		return c.come(int(n), words)
	case "ask": // for so many seconds
		return c.ask(time.Duration(n) * time.Second)
	case "get": // for so many milliseconds
		return c.get(time.Duration(n) * time.Millisecond)
	default:
		return nil, errors.New("unknown command")
	}
}

// connect connects viewer i.
func (c *crowd) connect(i int) error {
	if c.TLS {
		return c.connectTLS(i)
	}
	fd, rest, err := c.dial(i)
	if err != nil {
		return err
	}
	v := &viewer{fd: fd}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.viewers = append(c.viewers, v)
	if c.Does == doesNothing || c.Does == doesTrickle || c.Does == doesConnect || c.Does == doesDrip || c.Does == doesPour {
		return nil
	}
	if c.Delta {
		if _, err := unix.Write(fd, masked(`{"event":"subscribe","data":{"delta":true}}`)); err != nil {
			return err
		}
	}
	if err := c.feed(v, rest); err != nil {
		return err
	}
	return unix.EpollCtl(c.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(len(c.viewers) - 1)})
}

// dial connects from the i-th address, upgrades a viewer's connection, and returns the bytes
// after the answer.
func (c *crowd) dial(i int) (fd int, rest []byte, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, err
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	server, err := netip.ParseAddrPort(c.Addr)
	if err != nil {
		return 0, nil, err
	}
	source := [4]byte{127, byte(1 + i>>16), byte(i >> 8), byte(i)}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: source}); err != nil {
		return 0, nil, fmt.Errorf("bind %v: %w", net.IP(source[:]), err)
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(server.Port()), Addr: server.Addr().As4()}); err != nil {
		return 0, nil, fmt.Errorf("connect: %w", err)
	}
	if !isViewer(c.Does) {
		return fd, nil, unix.SetNonblock(fd, true)
	}
	rest, err = c.upgrade(socket(fd))
	if err != nil {
		return 0, nil, err
	}
	return fd, rest, unix.SetNonblock(fd, true)
}

// socket reads and writes a socket that blocks.
type socket int

func (s socket) Read(p []byte) (int, error)  { return unix.Read(int(s), p) }
func (s socket) Write(p []byte) (int, error) { return unix.Write(int(s), p) }

// upgrade makes a connection one of a viewer, and returns the bytes after the answer.
func (c *crowd) upgrade(conn io.ReadWriter) (rest []byte, err error) {
	request := "GET " + c.Path + " HTTP/1.1\r\nHost: " + c.Addr + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	if c.Deflate {
		request += offer
	}
	request += "\r\n"
	if _, err := io.WriteString(conn, request); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	buf := make([]byte, 4096)
	for have := 0; ; {
		n, err := conn.Read(buf[have:])
		if err != nil || n == 0 {
			return nil, fmt.Errorf("handshake: %d bytes, %w", n, err)
		}
		have += n
		head, rest, whole := bytes.Cut(buf[:have], []byte("\r\n\r\n"))
		switch {
		case whole && !bytes.HasPrefix(head, []byte("HTTP/1.1 101 ")):
			return nil, fmt.Errorf("handshake: %.200s", buf[:have])
		case whole:
			return rest, nil
		}
	}
}

// connectTLS connects viewer i over TLS. A goroutine reads what it gets.
func (c *crowd) connectTLS(i int) error {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, byte(1+i>>16), byte(i>>8), byte(i))}}
	conn, err := (&tls.Dialer{NetDialer: &dialer, Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(context.Background(), "tcp", c.Addr)
	if err != nil {
		return err
	}
	rest, err := c.upgrade(conn)
	if err != nil {
		return err
	}
	v := &viewer{conn: conn}
	c.mu.Lock()
	c.viewers = append(c.viewers, v)
	err = c.feed(v, rest)
	c.mu.Unlock()
	go func() {
		buf := make([]byte, 16<<10)
		for {
			n, err := conn.Read(buf)
			c.mu.Lock()
			switch {
			case v.closed:
			case err != nil:
				c.leave(v)
			default:
				if err := c.feed(v, buf[:n]); err != nil {
					panic(err)
				}
			}
			closed := v.closed
			c.mu.Unlock()
			if closed {
				return
			}
		}
	}()
	return err
}

// write sends a few bytes, which the connection takes at once.
func (v *viewer) write(p []byte) {
	if v.conn != nil {
		_, _ = v.conn.Write(p)
		return
	}
	_, _ = unix.Write(v.fd, p)
}

// read reads from all sockets that have data, until it fails.
func (c *crowd) read() error {
	events := make([]unix.EpollEvent, 256)
	for {
		n, err := unix.EpollWait(c.poll, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		for _, e := range events[:max(0, n)] {
			c.mu.Lock()
			v := c.viewers[e.Fd]
			c.mu.Unlock()
			n, err := unix.Read(v.fd, c.buf)
			var fail error
			c.mu.Lock()
			switch {
			case errors.Is(err, unix.EAGAIN), v.closed:
			case err != nil || n == 0:
				c.leave(v)
			case c.Does == doesGet:
				fail = c.more(v, c.buf[:n])
			default:
				fail = c.feed(v, c.buf[:n])
			}
			c.mu.Unlock()
			if fail != nil {
				return fail
			}
		}
	}
}

// leave closes a connection that has ended. The caller holds mu.
func (c *crowd) leave(v *viewer) {
	v.closed = true
	c.ended++
	if v.conn != nil {
		_ = v.conn.Close()
	} else {
		_ = unix.Close(v.fd)
	}
	c.came.Broadcast()
}

// feed handles received bytes. The caller holds mu.
func (c *crowd) feed(v *viewer, p []byte) error {
	for len(p) > 0 {
		var whole bool
		if p, whole = v.stream.take(p); !whole {
			continue
		}
		c.counted.Bytes += len(v.stream.head) + v.stream.size()
		switch begin := v.stream.begin; v.stream.opcode() {
		case 0x1:
			if v.stream.head[0]&compressed != 0 {
				begin = c.inflated(begin)
			}
			if err := c.message(v, begin); err != nil {
				return err
			}
		case 0x9: // its answer, with a mask of zeros
			if c.Does == doesVanish {
				continue
			}
			pong := append([]byte{0x8a, 0x80 | byte(len(begin)), 0, 0, 0, 0}, begin...)
			v.write(pong) // the connection's end is seen when it is read
		case 0x8:
			c.leave(v)
			return nil
		default:
			return fmt.Errorf("a frame of opcode %d", v.stream.opcode())
		}
	}
	return nil
}

// inflated returns the decompressed beginning of a message, cached for all viewers that
// share the message.
func (c *crowd) inflated(begin []byte) []byte {
	if text, known := c.opened[string(begin)]; known {
		return text
	}
	text := make([]byte, keep)
	n, _ := io.ReadFull(flate.NewReader(bytes.NewReader(begin)), text) // it is cut
	if len(c.opened) > 100 {
		clear(c.opened)
	}
	c.opened[string(begin)] = text[:n]
	return text[:n]
}

// message records a message by its beginning.
func (c *crowd) message(v *viewer, begin []byte) error {
	c.counted.Messages++
	if stamp, ok := after(begin, `"stamp":"`); ok {
		t, err := now()
		if err != nil {
			return err
		}
		a := c.arrivals[stamp]
		if a == nil {
			a = &arrival{Stamp: stamp, First: t, Bytes: v.stream.size()}
			c.arrivals[stamp] = a
		}
		a.Count++
		a.Last = t
		if a.Count == len(c.viewers) {
			c.came.Broadcast()
		}
		return nil
	}
	seq, ok := after(begin, `"seq":`)
	if ok && bytes.HasPrefix(begin, []byte(`{"event":"gpu_status_update","data":`)) {
		if v.seq > 0 && seq != v.seq+1 {
			c.counted.Missed++
		}
		v.seq = seq
	}
	if v.asked.IsZero() || !bytes.HasPrefix(begin, []byte(`{"event":"gpu_status_update","id":`)) {
		return nil // gpu_status, or an update that nobody asked for
	}
	_, text, found := bytes.Cut(begin, []byte(`"timestamp":"`))
	text, _, whole := bytes.Cut(text, []byte(`"`))
	began, err := time.Parse(time.RFC3339Nano, string(text))
	if !ok || !found || !whole || err != nil {
		return fmt.Errorf("an answer without seq or timestamp: %s", begin)
	}
	c.answers.Got++
	c.answers.Waits = append(c.answers.Waits, time.Since(v.asked))
	if began.Before(v.asked.Truncate(time.Microsecond)) { // as precise as the timestamp
		c.answers.TooOld++
	}
	c.readings[seq] = true
	v.asked = time.Time{}
	return nil
}

// after returns the number after a text.
func after(b []byte, text string) (int64, bool) {
	_, rest, found := bytes.Cut(b, []byte(text))
	digits := len(rest) - len(bytes.TrimLeft(rest, "0123456789"))
	n, err := strconv.ParseInt(string(rest[:digits]), 10, 64)
	return n, found && err == nil
}

// await waits until all viewers have a message.
func (c *crowd) await(stamp int64) arrival {
	begun := time.Now()
	late := time.AfterFunc(testkit.Patience, c.came.Broadcast)
	defer late.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		a := c.arrivals[stamp]
		if a != nil && (a.Count == len(c.viewers) || time.Since(begun) >= testkit.Patience) {
			delete(c.arrivals, stamp)
			return *a
		}
		if time.Since(begun) >= testkit.Patience {
			return arrival{Stamp: stamp}
		}
		c.came.Wait()
	}
}

// trickle reads 200 bytes a second from each socket.
func (c *crowd) trickle() {
	for range time.Tick(time.Second) {
		for _, v := range c.viewers {
			_, _ = unix.Read(v.fd, c.buf[:200]) // there may be none, or the server has ended it
		}
	}
}

// send sends a text to each connection, so many bytes at a time, until the connection ends or has the whole text.
func (c *crowd) send(each time.Duration, text []byte, size int) {
	sent := make([]int, len(c.viewers))
	for range time.Tick(each) {
		for i, v := range c.viewers {
			n, _ := unix.Write(v.fd, text[sent[i]:min(len(text), sent[i]+size)]) // the server may have ended it, or not read what came before
			sent[i] += max(0, n)
		}
	}
}

// masked returns a short text as a client's frame, masked with zeros.
func masked(text string) []byte {
	return append([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...)
}

// come makes viewers connect and leave at a rate: of four, one says goodbye, one resets the
// connection and two close it. It returns how many connected.
func (c *crowd) come(rate int, words []string) (int, error) {
	seconds, err := number(words, 2)
	if err != nil {
		return 0, err
	}
	begun, came := time.Now(), 0
	for ; came < rate*int(seconds); came++ {
		time.Sleep(time.Until(begun.Add(time.Duration(came) * time.Second / time.Duration(rate))))
		fd, _, err := c.dial(came % 50_000)
		if err != nil {
			return came, err
		}
		switch came % 4 {
		case 0: // a masked close frame
			_, err = unix.Write(fd, []byte{0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8})
		case 1: // a reset
			err = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		}
		if err := errors.Join(err, unix.Close(fd)); err != nil {
			return came, err
		}
	}
	return came, nil
}

// ask makes each viewer ask for a reading once a second, spread evenly, for some time, and
// then waits for the last answers.
func (c *crowd) ask(span time.Duration) (answers, error) {
	begun, each := time.Now(), time.Second/time.Duration(len(c.viewers))
	frame := masked(`{"event":"request_gpu_update","id":1}`)
	for i := 0; ; i++ {
		due := begun.Add(time.Duration(i) * each)
		if due.Sub(begun) >= span {
			break
		}
		time.Sleep(time.Until(due))
		c.mu.Lock()
		if v := c.viewers[i%len(c.viewers)]; v.asked.IsZero() && !v.closed {
			c.answers.Asked++
			v.asked = time.Now()
			if _, err := unix.Write(v.fd, frame); err != nil {
				c.mu.Unlock()
				return answers{}, err
			}
		}
		c.mu.Unlock()
	}
	time.Sleep(2 * time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.answers.Waits)
	c.answers.Readings = len(c.readings)
	return c.answers, nil
}

// get makes each connection request the path again and again for some time, and returns the result.
func (c *crowd) get(span time.Duration) (gotten, error) {
	c.mu.Lock()
	c.getting, c.gotten = true, gotten{}
	for _, v := range c.viewers {
		if err := c.request(v); err != nil {
			c.mu.Unlock()
			return gotten{}, err
		}
	}
	c.mu.Unlock()
	time.Sleep(span)
	c.mu.Lock()
	c.getting = false
	c.mu.Unlock()
	time.Sleep(100 * time.Millisecond) // the last answers
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended > 0 {
		return gotten{}, fmt.Errorf("%d connections ended", c.ended)
	}
	return c.gotten, nil
}

func (c *crowd) request(v *viewer) error {
	condition := ""
	if v.etag != nil {
		condition = fmt.Sprintf("If-None-Match: %s\r\n", v.etag)
	}
	_, err := unix.Write(v.fd, []byte("GET "+c.Path+" HTTP/1.1\r\nHost: "+c.Addr+"\r\n"+c.Header+condition+"\r\n"))
	return err
}

// more handles part of an answer, and sends the next request after its end. The caller holds mu.
func (c *crowd) more(v *viewer, p []byte) error {
	if v.rest == 0 {
		head, body, whole := bytes.Cut(p, []byte("\r\n\r\n"))
		same := bytes.HasPrefix(head, []byte("HTTP/1.1 304 "))
		length, ok := after(head, "Content-Length: ")
		if !whole || !same && !ok || !same && !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
			return fmt.Errorf("an answer of %d bytes: %.500s", len(p), p)
		}
		if same {
			length = 0
			c.gotten.Same++
		} else if c.Again {
			_, etag, _ := bytes.Cut(head, []byte("Etag: "))
			etag, _, _ = bytes.Cut(etag, []byte("\r\n"))
			v.etag = bytes.Clone(etag)
		}
		v.rest, p = int(length), body
	}
	v.rest -= len(p)
	if v.rest > 0 {
		return nil
	}
	c.gotten.Answers++
	if !c.getting {
		return nil
	}
	return c.request(v)
}

// A stream finds the frames in a server's bytes.
type stream struct {
	head  []byte // the frame's header
	left  int    // bytes of the payload that have not come
	begin []byte // the first bytes of the payload
}

// keep is how many bytes of a payload are kept.
const keep = 512

func (s *stream) opcode() byte { return s.head[0] & 0x0f }

// take takes the bytes of one frame, reports whether the frame is complete, and returns the rest.
func (s *stream) take(p []byte) (rest []byte, whole bool) {
	if s.left == 0 {
		if s.complete() {
			s.head, s.begin = s.head[:0], s.begin[:0]
		}
		for len(p) > 0 && !s.complete() {
			s.head, p = append(s.head, p[0]), p[1:]
		}
		if !s.complete() {
			return nil, false
		}
		s.left = s.size()
	}
	n := min(s.left, len(p))
	s.begin = append(s.begin, p[:min(n, keep-len(s.begin))]...)
	s.left -= n
	return p[n:], s.left == 0
}

// complete reports whether the header is complete.
func (s *stream) complete() bool {
	if len(s.head) < 2 {
		return false
	}
	switch s.head[1] {
	case 126:
		return len(s.head) == 4
	case 127:
		return len(s.head) == 10
	default:
		return true
	}
}

func (s *stream) size() int {
	switch s.head[1] {
	case 126:
		return int(binary.BigEndian.Uint16(s.head[2:]))
	case 127:
		return int(binary.BigEndian.Uint64(s.head[2:]))
	default:
		return int(s.head[1])
	}
}

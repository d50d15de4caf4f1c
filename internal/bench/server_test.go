//go:build !race && linux

package bench

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/certs"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// The kinds of servers. All send the same bytes.
const (
	kindRaw      = "raw"      // one ready frame, with one write call for each viewer, from as many goroutines as processors
	kindNaive    = "naive"    // the library's Write for each viewer, each in its goroutine, each with its own encoding
	kindHub      = "hub"      // gpuwhy's
	kindPatient  = "patient"  // gpuwhy's, for which no viewer is too slow, as viewers are where the machine is busy
	kindConstant = "constant" // no WebSocket: net/http with an answer that never changes
)

// maxViewers is more than any benchmark has.
const maxViewers = 50_000

// A publisher sends all viewers a message with a stamp, of about size bytes, and may return
// before they have it.
type publisher func(stamp int64, size int) error

// hello is a server's first message.
type hello struct{ Addr string }

// health is what only the server itself knows.
type health struct {
	Goroutines int
	Mallocs    uint64
}

// runServer runs in a server's process.
func runServer(kind string, size int) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	padding() // part of what the server takes without viewers
	address := listener.Addr().String()
	kind, encrypts := strings.CutSuffix(kind, encrypted)
	if encrypts {
		room, err := certs.New(certs.Config{Host: part.Host{Log: slog.New(slog.DiscardHandler)}, Options: certs.Options{SelfSigned: true}})
		if err != nil {
			return err
		}
		listener = tls.NewListener(hub.Listen(listener), room.TLS())
	}
	var publish publisher
	switch kind {
	case kindRaw:
		publish = serveRaw(listener)
	case kindNaive:
		publish = serveNaive(listener)
	case kindHub:
		publish = serveHub(listener, 0, 0)
	case kindPatient:
		publish = serveHub(listener, 2*time.Hour, time.Hour)
	case kindConstant:
		serveConstant(listener, size)
	default:
		return fmt.Errorf("there is no server %q", kind)
	}
	return converse(hello{address}, func(words []string) (any, error) {
		switch words[0] {
		case "publish": // SIZE
			size, err := number(words, 1)
			if err != nil {
				return nil, err
			}
			stamp, err := now()
			if err != nil {
				return nil, err
			}
			return stamp, publish(stamp, int(size))
		case "settle": // give back what is free
			time.Sleep(time.Second) // what viewers' ends leave is done by then
			debug.FreeOSMemory()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return health{runtime.NumGoroutine(), m.Mallocs}, nil
	})
}

// startServing runs a handler in the background, as gpuwhy's own server does.
func startServing(l net.Listener, handler http.Handler) {
	go func() {
		panic(serve.HTTPServer(handler, slog.New(slog.DiscardHandler)).Serve(l)) // it ends with the process
	}()
}

// update is a message as all servers send it.
type update struct {
	Event string `json:"event"`
	Data  data   `json:"data"`
}

type data struct {
	Stamp string `json:"stamp"`
	Pad   string `json:"pad"`
}

// padding pads a message with gpuwhy's updates about eight GPUs, reading after reading, in characters that JSON does not
// escape. So it compresses as well as real updates.
var padding = sync.OnceValue(func() string {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	nodes, err := sim.Nodes(eight, func() time.Time { return now })
	var text strings.Builder
	for err == nil && text.Len() < 256<<10 {
		now = now.Add(5 * time.Second)
		var s *gpu.Snapshot
		if s, err = nodes[0].Read(context.Background()); err == nil {
			err = json.NewEncoder(&text).Encode(contract.NewUpdate(insight.Of(s), nil))
		}
	}
	if err != nil {
		panic(err)
	}
	return strings.NewReplacer(`"`, "'", `\`, "/", "<", "(", ">", ")", "&", "+", "\n", " ").Replace(text.String())
})

func newData(stamp int64, size int) data {
	return data{fmt.Sprintf("%019d", stamp), padding()[:max(0, size-96)]}
}

// serveRaw is the simplest server that notices when viewers leave.
func serveRaw(l net.Listener) publisher {
	var mu sync.Mutex
	viewers := map[net.Conn]bool{} // whether it takes deflated messages
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				panic(err)
			}
			go func() {
				defer conn.Close()
				key, deflate, err := handshake(conn)
				if err != nil {
					return
				}
				mu.Lock() // who has the answer gets what is published
				_, err = io.WriteString(conn, accept(key, deflate))
				viewers[conn] = deflate
				mu.Unlock()
				var buf [64]byte
				for err == nil {
					_, err = conn.Read(buf[:])
				}
				mu.Lock()
				delete(viewers, conn)
				mu.Unlock()
			}()
		}
	}()
	return func(stamp int64, size int) error {
		body, err := json.Marshal(update{"gpu_status_update", newData(stamp, size)})
		if err != nil {
			return err
		}
		plain, small := append(header(len(body)), body...), sync.OnceValue(func() []byte { return deflatedFrame(body) })
		mu.Lock()
		defer mu.Unlock()
		all := slices.Collect(maps.Keys(viewers))
		var writers sync.WaitGroup
		for part := range slices.Chunk(all, len(all)/runtime.GOMAXPROCS(0)+1) {
			writers.Go(func() {
				for _, conn := range part {
					frame := plain
					if viewers[conn] {
						frame = small()
					}
					if _, err := conn.Write(frame); err != nil {
						_ = conn.Close() // the reader forgets it
					}
				}
			})
		}
		writers.Wait()
		return nil
	}
}

// handshake reads a handshake, and returns its key and whether it offers permessage-deflate.
func handshake(conn net.Conn) (key string, deflate bool, err error) {
	request := make([]byte, 0, 1024)
	for !bytes.HasSuffix(request, []byte("\r\n\r\n")) {
		n, err := conn.Read(request[len(request):cap(request)])
		if err != nil {
			return "", false, err
		}
		request = request[:len(request)+n]
	}
	_, key, _ = strings.Cut(string(request), "Sec-WebSocket-Key: ")
	key, _, found := strings.Cut(key, "\r\n")
	if !found {
		return "", false, errors.New("no key")
	}
	return key, bytes.Contains(request, []byte(offer)), nil
}

// offer is permessage-deflate (RFC 7692) in the form that lets viewers share a frame.
const offer = "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n"

// accept returns the answer to a handshake.
func accept(key string, deflate bool) string {
	extensions := ""
	if deflate {
		extensions = offer
	}
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
		base64.StdEncoding.EncodeToString(sum[:]) + "\r\n" + extensions + "\r\n"
}

// deflatedFrame returns the frame of a compressed message (RFC 7692, 7.2.1).
func deflatedFrame(body []byte) []byte {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.DefaultCompression)
	if err == nil {
		_, err = w.Write(body)
	}
	if err = errors.Join(err, w.Flush()); err != nil {
		panic(err) // a buffer takes all
	}
	payload := bytes.TrimSuffix(b.Bytes(), []byte{0, 0, 0xff, 0xff})
	frame := append(header(len(payload)), payload...)
	frame[0] |= compressed
	return frame
}

// compressed is the bit of a frame's first byte that marks a compressed message.
const compressed = 0x40

// header returns the header of a text frame (RFC 6455, 5.2).
func header(size int) []byte {
	switch {
	case size <= 125:
		return []byte{0x81, byte(size)}
	case size <= math.MaxUint16:
		return binary.BigEndian.AppendUint16([]byte{0x81, 126}, uint16(size))
	default:
		return binary.BigEndian.AppendUint64([]byte{0x81, 127}, uint64(size))
	}
}

// serveNaive is the server that one would write first.
func serveNaive(l net.Listener) publisher {
	var mu sync.Mutex
	viewers := map[*websocket.Conn]struct{}{}
	startServing(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock() // who has the answer gets what is published
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
		if err == nil {
			viewers[conn] = struct{}{}
		}
		mu.Unlock()
		if err != nil {
			return // it has been answered
		}
		<-conn.CloseRead(context.Background()).Done()
		mu.Lock()
		delete(viewers, conn)
		mu.Unlock()
	}))
	return func(stamp int64, size int) error {
		content := newData(stamp, size)
		mu.Lock()
		defer mu.Unlock()
		for conn := range viewers {
			go func() {
				text, err := json.Marshal(update{"gpu_status_update", content})
				if err != nil {
					panic(err) // strings can always be marshaled
				}
				ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
				defer cancel()
				_ = conn.Write(ctx, websocket.MessageText, text) // an error ends CloseRead too
			}()
		}
		return nil
	}
}

// serveHub runs gpuwhy's hub with cheap encoders.
func serveHub(l net.Listener, pingEvery, writeTimeout time.Duration) publisher {
	var size atomic.Int64
	h := hub.New(hub.Config{
		MaxViewers: maxViewers,
		PingEvery:  pingEvery, WriteTimeout: writeTimeout,
		Log: slog.New(slog.DiscardHandler),
		Encode: func(m *insight.Moment, _ auth.Audience, _ func(*gpu.Device) bool) ([]byte, error) {
			return json.Marshal(newData(int64(m.Snapshot.Seq), int(size.Load())))
		},
		// A viewer that the hub counts only after a message is published gets it with its status.
		Status: func(_ auth.Audience, _ *insight.Fleet, encoded []byte) ([]byte, error) { return encoded, nil },
	})
	startServing(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.Serve(w, r.WithContext(auth.NewContext(r.Context(), new(auth.LocalOwner()))), "")
	}))
	return func(stamp int64, bytes int) error {
		size.Store(int64(bytes))
		h.Publish(insight.Of(&gpu.Snapshot{Seq: uint64(stamp)}))
		return nil
	}
}

// serveConstant answers every request with the same number of bytes.
func serveConstant(l net.Listener, size int) {
	answer, contentType, length := []byte(padding()[:size]), []string{"application/json"}, []string{strconv.Itoa(size)}
	go func() {
		panic(http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"], w.Header()["Content-Length"] = contentType, length
			_, _ = w.Write(answer) // a client that left
		})))
	}()
}

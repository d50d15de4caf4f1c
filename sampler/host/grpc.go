package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/status"
)

// maxMessage bounds an answer over gRPC, in bytes: ten thousand containers are
// about half of it.
const maxMessage = 16 << 20

// quietGRPC keeps grpc-go from writing to stderr by itself: what fails comes
// back as an error, and is logged once. It must be called before gRPC is used.
var quietGRPC = sync.OnceFunc(func() {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
})

var errConnectionOver = errors.New("the connection is over")

// callSocket asks a gRPC service over a unix socket, over a connection that is
// made for the question and ends with it: containers are asked about rarely.
// Where the socket can't be opened the error says so as the system does; where
// the service refuses, it is fs.ErrPermission; where it knows no such thing, or
// has no such service, errUnknown.
func callSocket(ctx context.Context, path string, ask func(grpc.ClientConnInterface) error) error {
	socket, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return err
	}
	defer socket.Close()
	var given atomic.Bool
	conn, err := grpc.NewClient("passthrough:///localhost",
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if given.Swap(true) {
				return nil, errConnectionOver // no second try
			}
			return socket, nil
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the socket's file says who may
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithMaxHeaderListSize(64<<10),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithUserAgent("gpuwhy"),
	)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer conn.Close()
	err = ask(conn)
	switch status.Code(err) {
	case codes.OK:
		return nil
	case codes.NotFound, codes.Unimplemented:
		return errUnknown
	case codes.PermissionDenied, codes.Unauthenticated:
		return fmt.Errorf("%s: %w: %w", path, fs.ErrPermission, err)
	default:
		return fmt.Errorf("%s: %w", path, err)
	}
}

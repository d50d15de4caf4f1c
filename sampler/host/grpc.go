package host

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/status"
)

// maxMessage is the most that gRPC may answer, in bytes: ten thousand containers need
// about half of it.
const maxMessage = 16 << 20

// quietGRPC stops grpc-go from writing to stderr: failures are errors, which are logged
// once. It must be called before gRPC is used.
var quietGRPC = sync.OnceFunc(func() {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
})

// callSocket asks a gRPC service over a unix socket. The connection serves one question,
// since questions are rare. If the socket can't be opened, the error is the system's. It
// wraps fs.ErrPermission if the service refuses, and is errUnknown if the service does
// not know the object or the method.
func callSocket[V any](ctx context.Context, path string, ask func(grpc.ClientConnInterface) (V, error)) (answer V, err error) {
	socket, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return answer, err
	}
	defer socket.Close()
	conn, err := grpc.NewClient("passthrough:///localhost",
		// A second try fails: gRPC has closed the socket then.
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return socket, nil }),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the socket's file says who may
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithMaxHeaderListSize(64<<10),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithUserAgent("gpuwhy"),
	)
	if err != nil {
		return answer, fmt.Errorf("%s: %w", path, err)
	}
	defer conn.Close()
	answer, err = ask(conn)
	switch status.Code(err) {
	case codes.OK:
		return answer, nil
	case codes.NotFound, codes.Unimplemented:
		err = errUnknown
	case codes.PermissionDenied, codes.Unauthenticated:
		err = fmt.Errorf("%w: %w", fs.ErrPermission, err)
	}
	return answer, fmt.Errorf("%s: %w", path, err)
}

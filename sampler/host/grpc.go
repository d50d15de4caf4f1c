package host

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"sync"

	containerd "github.com/containerd/containerd/api/services/containers/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const maxMessage = 16 << 20 // bytes: ten thousand containers need about half of it

// quietGRPC stops grpc-go from writing to stderr. It must be called before gRPC is used.
var quietGRPC = sync.OnceFunc(func() {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
})

// callSocket asks a gRPC service over a unix socket. The connection serves one question, since questions are rare. If the socket can't be
// opened, the error is the system's. It wraps fs.ErrPermission if the service refuses, and is errUnknown if the service does not know the
// object or the method.
func callSocket[V any](ctx context.Context, path string, ask func(grpc.ClientConnInterface) (V, error)) (answer V, err error) {
	socket, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return answer, err
	}
	defer socket.Close()
	conn, err := grpc.NewClient("passthrough:///localhost",
		// A second dial fails: gRPC has closed the socket by then.
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return socket, nil }),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the socket's file decides who may connect
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

// askCRI asks as the kubelet does: RuntimeService/ListContainers, and ListPodSandbox if the container's labels don't name its pod.
func askCRI(ctx context.Context, socket string, k *containerKey) (answer, error) {
	return callSocket(ctx, socket, func(conn grpc.ClientConnInterface) (answer, error) {
		runtime := runtimev1.NewRuntimeServiceClient(conn)
		list, err := runtime.ListContainers(ctx, &runtimev1.ListContainersRequest{Filter: &runtimev1.ContainerFilter{Id: k.id}})
		if err != nil {
			return answer{}, err
		}
		// A runtime may ignore the filter.
		i := slices.IndexFunc(list.GetContainers(), func(c *runtimev1.Container) bool { return c.GetId() == k.id })
		if i < 0 {
			return answer{}, errUnknown
		}
		c := list.GetContainers()[i]
		name, image, labels := c.GetMetadata().GetName(), c.GetImage(), c.GetLabels()
		if id := c.GetPodSandboxId(); labels[podNameLabel] == "" && id != "" {
			if labels, err = sandboxLabels(ctx, runtime, id, name); err != nil {
				return answer{}, err
			}
		}
		return newAnswer(name, cmp.Or(image.GetUserSpecifiedImage(), image.GetImage(), c.GetImageRef()), labels), nil
	})
}

// sandboxLabels returns the kubelet's labels, made from what the runtime knows about the pod.
func sandboxLabels(ctx context.Context, runtime runtimev1.RuntimeServiceClient, id, member string) (map[string]string, error) {
	list, err := runtime.ListPodSandbox(ctx, &runtimev1.ListPodSandboxRequest{Filter: &runtimev1.PodSandboxFilter{Id: id}})
	if err != nil {
		return nil, err
	}
	for _, sandbox := range list.GetItems() {
		if m := sandbox.GetMetadata(); sandbox.GetId() == id {
			return map[string]string{podNamespaceLabel: m.GetNamespace(), podNameLabel: m.GetName(), podMemberLabel: member}, nil
		}
	}
	return nil, nil
}

// askContainerd asks containerd's own API about a container without a pod.
func askContainerd(ctx context.Context, socket string, k *containerKey) (answer, error) {
	return callSocket(ctx, socket, func(conn grpc.ClientConnInterface) (answer, error) {
		containers := containerd.NewContainersClient(conn)
		for _, namespace := range k.namespaces() {
			ctx := metadata.AppendToOutgoingContext(ctx, "containerd-namespace", namespace)
			got, err := containers.Get(ctx, &containerd.GetContainerRequest{ID: k.id})
			c := got.GetContainer()
			switch {
			case status.Code(err) == codes.NotFound:
			case err != nil:
				return answer{}, err
			case c.GetID() == k.id: // and not another container's
				return newAnswer(c.GetLabels()["nerdctl/name"], c.GetImage(), c.GetLabels()), nil
			}
		}
		return answer{}, errUnknown
	})
}

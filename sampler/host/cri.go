package host

import (
	"cmp"
	"context"
	"slices"

	containerd "github.com/containerd/containerd/api/services/containers/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// askCRI asks as the kubelet does: RuntimeService/ListContainers, and ListPodSandbox if
// the container's labels don't name its pod.
func askCRI(ctx context.Context, socket string, c *containerKey) (a answer, err error) {
	err = callSocket(ctx, socket, func(conn grpc.ClientConnInterface) error {
		runtime := runtimev1.NewRuntimeServiceClient(conn)
		list, err := runtime.ListContainers(ctx, &runtimev1.ListContainersRequest{Filter: &runtimev1.ContainerFilter{Id: c.id}})
		if err != nil {
			return err
		}
		// A runtime may ignore the filter.
		i := slices.IndexFunc(list.GetContainers(), func(other *runtimev1.Container) bool { return other.GetId() == c.id })
		if i < 0 {
			return status.Error(codes.NotFound, "no such container")
		}
		found := list.GetContainers()[i]
		labels := found.GetLabels()
		if id := found.GetPodSandboxId(); labels[podNameLabel] == "" && id != "" {
			if labels, err = sandboxLabels(ctx, runtime, id, found.GetMetadata().GetName()); err != nil {
				return err
			}
		}
		image := found.GetImage()
		a = newAnswer(found.GetMetadata().GetName(), cmp.Or(image.GetUserSpecifiedImage(), image.GetImage(), found.GetImageRef()), labels)
		return nil
	})
	return a, err
}

// sandboxLabels are the labels that the kubelet gives, made of what the runtime knows
// about the pod.
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

// askContainerd asks containerd's own API, Containers/Get, about a container that
// nerdctl, ctr or Docker made. The answer also has the container's arguments and
// environment, which are not used.
func askContainerd(ctx context.Context, socket string, c *containerKey) (a answer, err error) {
	err = callSocket(ctx, socket, func(conn grpc.ClientConnInterface) error {
		containers := containerd.NewContainersClient(conn)
		for _, namespace := range c.namespaces() {
			ctx := metadata.AppendToOutgoingContext(ctx, "containerd-namespace", namespace)
			got, err := containers.Get(ctx, &containerd.GetContainerRequest{ID: c.id})
			switch {
			case status.Code(err) == codes.NotFound:
				continue
			case err != nil:
				return err
			case got.GetContainer().GetID() != c.id:
				return status.Error(codes.NotFound, "it answers about another container")
			}
			found := got.GetContainer()
			a = newAnswer(found.GetLabels()["nerdctl/name"], found.GetImage(), found.GetLabels())
			return nil
		}
		return status.Error(codes.NotFound, "no such container")
	})
	return a, err
}

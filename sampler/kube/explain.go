package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// codeOf returns the status with which the API server refused something; 0: it did not.
func codeOf(err error) int {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.Code
	}
	if s, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return int(s.ErrStatus.Code)
	}
	return 0
}

func conditionOf(err error) Condition {
	switch codeOf(err) {
	case http.StatusForbidden:
		return Forbidden
	case http.StatusUnauthorized:
		return Unauthenticated
	default:
		return Unreachable
	}
}

// whyNot says what an error of the API server means for a request; what names the request.
func (c *cluster) whyNot(err error, what string) *gpu.Advice {
	switch conditionOf(err) {
	case Forbidden:
		return &gpu.Advice{
			What: "cluster " + c.cfg.ID + " forbids listing and watching " + what,
			Try:  "give the account the rights in deploy/kubernetes/agentless-rbac.yaml (list and watch on nodes and pods)",
			Err:  errors.Join(gpu.ErrNotPermitted, err),
		}
	case Unauthenticated:
		return &gpu.Advice{
			What: "cluster " + c.cfg.ID + " does not accept gpuwhy's credentials",
			Try:  "check the token or certificate in the clusters file: it may have expired",
			Err:  errors.Join(gpu.ErrNotPermitted, err),
		}
	}
	try := "check its address, the network and the certificate (ca_file)"
	if code := codeOf(err); code != 0 {
		try = fmt.Sprintf("its API server answered %d: check the server's logs", code)
	}
	return &gpu.Advice{
		What: "cluster " + c.cfg.ID + " can't be reached: " + clean(err.Error()),
		Try:  try,
		Err:  errors.Join(gpu.ErrNotAnswering, err),
	}
}

// A right lists the verbs on pods/exec that are missing in a namespace.
type right struct {
	missing []string
	checked time.Time
}

// explain says what an error of exec means.
func (c *cluster) explain(ctx context.Context, t target, err error) *gpu.Advice {
	if errors.Is(err, context.DeadlineExceeded) {
		return &gpu.Advice{
			What: fmt.Sprintf("nvidia-smi in pod %s has not answered within %v", t.pod, c.cfg.Deadline),
			Try:  "run it by hand: kubectl -n " + t.namespace + " exec " + t.pod + " -c " + t.container + " -- nvidia-smi; if it hangs, look for XIDs in the kernel log of the node",
			Err:  errors.Join(gpu.ErrNotAnswering, err),
		}
	}
	text := err.Error()
	code := codeOf(err)
	if code == http.StatusForbidden || strings.Contains(text, "forbidden") || strings.Contains(text, "403") {
		if missing := c.missing(ctx, t.namespace); len(missing) > 0 || code == http.StatusForbidden {
			verbs := "get and create"
			if len(missing) > 0 {
				verbs = strings.Join(missing, " and ")
			}
			return &gpu.Advice{
				What: "cluster " + c.cfg.ID + " forbids running nvidia-smi in namespace " + t.namespace,
				Try:  "give the account the right to " + verbs + " on pods/exec, as in deploy/kubernetes/agentless-rbac.yaml",
				Err:  errors.Join(gpu.ErrNotPermitted, err),
			}
		}
	}
	switch {
	case code == http.StatusUnauthorized:
		return c.whyNot(err, "pods")
	case code == http.StatusNotFound || strings.Contains(text, "container not found") || strings.Contains(text, "is not running") ||
		strings.Contains(text, "pod does not exist") || strings.Contains(text, fmt.Sprintf("pods %q not found", t.pod)):
		return &gpu.Advice{
			What: "pod " + t.pod + " is restarting or gone",
			Try:  "wait until it runs again; to see what holds it up: kubectl -n " + t.namespace + " describe pod " + t.pod,
			Err:  errors.Join(gpu.ErrNoDriver, err),
		}
	}
	return &gpu.Advice{
		What: "nvidia-smi can't be run in pod " + t.pod + ": " + clean(text),
		Try:  "run it by hand: kubectl -n " + t.namespace + " exec " + t.pod + " -c " + t.container + " -- nvidia-smi",
		Err:  errors.Join(gpu.ErrNotAnswering, err),
	}
}

// missing returns the verbs on pods/exec that the account lacks. It is empty if nothing is missing, or if that can't be found out.
func (c *cluster) missing(ctx context.Context, namespace string) (verbs []string) {
	c.mu.Lock()
	known := c.rights[namespace]
	c.mu.Unlock()
	if known != nil && c.api.clock.Since(known.checked) < longPause {
		return known.missing
	}
	type attributes struct {
		Namespace   string `json:"namespace"`
		Verb        string `json:"verb"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	}
	type review struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Spec       struct {
			Attributes attributes `json:"resourceAttributes"`
		} `json:"spec"`
		Status struct {
			Allowed bool `json:"allowed"`
		} `json:"status"`
	}
	for _, verb := range []string{"get", "create"} {
		ask := review{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}
		ask.Spec.Attributes = attributes{namespace, verb, "pods", "exec"}
		var said review
		if err := c.api.exchange(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", nil, ask, &said); err != nil {
			return nil
		}
		if !said.Status.Allowed {
			verbs = append(verbs, verb)
		}
	}
	c.mu.Lock()
	c.rights[namespace] = &right{missing: verbs, checked: c.api.clock.Now()}
	c.mu.Unlock()
	return verbs
}

package insight_test

import (
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

func TestMomentsInAPlace(t *testing.T) {
	here := insight.Of(&gpu.Snapshot{Node: "lab:gpu-1"})
	if here.Name() != "lab:gpu-1" || here.Place.Rack() != "" {
		t.Errorf("a machine on its own is %q in the rack %q", here.Name(), here.Place.Rack())
	}
	there := here.At(insight.Place{Name: "gpu-1", Cluster: "lab", Labels: map[string]string{
		"topology.kubernetes.io/rack": "far", "rack": "near",
	}}, insight.Link{Remote: true})
	if there.Name() != "gpu-1" || insight.Key(there.Place.Cluster, there.Name()) != there.Snapshot.Node || there.Place.Rack() != "near" {
		t.Errorf("it is %q in the rack %q", there.Name(), there.Place.Rack())
	}
	if m, ok := there.Alone().Node("lab:gpu-1"); !ok || m != there || here.Alone().Moments()[0] != here {
		t.Error("alone, a Moment that was moved is another one")
	}
}

package server

import (
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// why answers with every cause of the machine and of its devices.
func (s *Server) why() handler {
	return s.derived(func(snap *gpu.Snapshot) any {
		answer := s.cfg.Explain(snap)
		return contract.NewWhy(s.cfg.Monitor, snap, &answer)
	})
}

// whyOne answers with the causes of one device.
func (s *Server) whyOne() handler {
	return s.each(func(snap *gpu.Snapshot) func(i int) any {
		answer := s.cfg.Explain(snap)
		return func(i int) any { return contract.NewOneWhy(snap, &answer.Devices[i]) }
	})
}

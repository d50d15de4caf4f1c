package server

import (
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// why answers with every cause of the machine and of its devices.
func (s *Server) why() handler {
	return s.derived(func(f *insight.Fleet) any { return contract.NewWhy(s.monitor(f), f) })
}

// whyOne answers with the causes of one device.
func (s *Server) whyOne() handler {
	return s.each(func(p insight.Part) any { return contract.NewOneWhy(p) })
}

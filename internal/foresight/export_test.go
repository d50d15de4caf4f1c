package foresight

import (
	"context"

	"github.com/gpuwhy/gpuwhy/internal/insight"
)

func (f *Foresight) LookAll(ctx context.Context) { f.lookAll(ctx) }

func (f *Foresight) SetNewest(newest func() *insight.Fleet) { f.cfg.Newest = newest }

func (f *Foresight) ForgetHours() { clear(f.hourly) }

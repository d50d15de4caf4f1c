package outlook

import (
	"context"

	"github.com/gpuwhy/gpuwhy/internal/insight"
)

func (f *Forecaster) LookAll(ctx context.Context) { f.lookAll(ctx) }

func (f *Forecaster) SetNewest(newest func() *insight.Fleet) { f.cfg.Newest = newest }

func (f *Forecaster) ForgetHours() { clear(f.hourly) }

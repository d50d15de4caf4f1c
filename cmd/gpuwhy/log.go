package main

import (
	"io"
	"log/slog"
)

func newLogger(w io.Writer, cfg *Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.level()}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

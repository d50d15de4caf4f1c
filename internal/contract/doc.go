// Package contract turns Moments into the messages and answers that clients of
// older systems know. Each contract has a file with its own types and pure
// functions from [insight.Moment] or [insight.Fleet] to them.
//
//	agent.go    resource agent: /gpu/info, /gpu/metrics
//	health.go   probes: /health…, /api/health, and / for programs
//	why.go      the answer in words: /api/gpu/why, and the causes in events
//	live.go     live dashboard: the WebSocket events' data, /api/gpu/…
//	fleet.go    fleet manager: /api/v1/monitoring/gpu-metrics
//	cluster.go  cluster observability: /api/v1/gpu/…
//	manager.go  GPU manager: /api/gpu/devices, /api/gpu/driver
//	events.go   alerts as events, and the recent past
//	alerts.go   alerts, silences and rules: /api/alerts, /api/silences, /api/alert-rules
//
// Fields may be added. They are never renamed or removed, and never change their
// type. Every measured value may be null, which is not 0. Counts, ids, names and
// times are never null. Units are in the names: *_mb is MiB (2^20 bytes), power is watts,
// clocks are MHz, utilizations are percent.
package contract

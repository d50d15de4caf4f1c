// Package contract turns snapshots into what existing clients already speak:
// one file a contract, each a set of pure functions from [gpu.Snapshot] to that
// contract's own response types.
//
//	agent.go    resource agent: /gpu/info, /gpu/metrics
//	health.go   probes: /health…, /api/health, and / for programs
//	why.go      the answer in words: /api/gpu/why, and the causes in events
//	live.go     live dashboard: the WebSocket events' data, /api/gpu/…
//	fleet.go    fleet manager: /api/v1/monitoring/gpu-metrics
//	cluster.go  cluster observability: /api/v1/gpu/…
//	manager.go  GPU manager: /api/gpu/devices, /api/gpu/driver
//
// Fields may be added, never renamed, removed or given another type. Every
// measured value may be null, which is unlike 0; counts, ids, names and times
// never are. Units are in the names: *_mb is MiB (2^20 bytes), power is watts,
// clocks are MHz, utilizations are percent.
package contract

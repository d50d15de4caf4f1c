//go:build !race

package contract_test

import (
	"encoding/json"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
)

func TestAudit(t *testing.T) {
	golden(t, "audit", map[string]any{
		"audit": contract.Audit{
			Next: new(int64(4711)),
			Entries: []contract.AuditEntry{
				{
					Number: 4712, Time: "2026-03-14T15:09:29.25Z", Action: "silenceAlert", Result: "done", Principal: "anna", Identity: "user:7f3a", Way: "password",
					Address: "10.0.0.7", Target: "high_gpu_usage-GPU-4090c0de-0000-4000-8000-000000000001-1773500966535",
					After: json.RawMessage(`[{"id":"silence-1","until":"2026-03-14T16:09:29Z"}]`), Of: 4711,
				},
				{
					Number: 4711, Time: "2026-03-14T15:09:29.21Z", Action: "silenceAlert", Result: "begun", Principal: "anna", Identity: "user:7f3a", Way: "password",
					Address: "10.0.0.7", Target: "high_gpu_usage-GPU-4090c0de-0000-4000-8000-000000000001-1773500966535",
					Args: json.RawMessage(`{"comment":"training","duration_seconds":3600}`),
				},
			},
		},
		"audit_check": contract.AuditCheck{
			Sound: true, First: 1200, Last: 4712, Anchor: 1199, Head: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		},
	})
}

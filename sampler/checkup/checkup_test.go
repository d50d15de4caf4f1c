package checkup

import (
	"context"
	"testing"
	"testing/synctest"
)

// A check of something that hangs ends, and says so.
func TestACheckThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := Check{Run: func(context.Context) Finding { <-release; return Good("") }}.Do(t.Context())
		if f.Verdict != NotFine || f.Mend == "" {
			t.Errorf("%+v", f)
		}
		close(release)
		f = Check{Run: func(ctx context.Context) Finding { <-ctx.Done(); return Bad("late", "") }}.Do(t.Context())
		if f.What != "late" {
			t.Errorf("%+v", f)
		}
	})
}

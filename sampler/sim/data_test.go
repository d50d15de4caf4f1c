package sim

import "testing"

// Every card names an existing product, site and jobs.
func TestStockIsComplete(t *testing.T) {
	s := inStock()
	for profile, plan := range s.Machines {
		for _, c := range plan.Cards {
			if s.Products[c.Product] == nil || s.Sites[c.Site].Airflow == 0 || len(c.Jobs) == 0 || len(c.Jobs) > maxRoster {
				t.Errorf("%s: %+v", profile, c)
			}
			for _, name := range c.Jobs {
				if s.Jobs[name].name != name {
					t.Errorf("%s: %s has no job %q", profile, c.PCI, name)
				}
			}
		}
	}
	for name, j := range s.Jobs {
		for _, p := range j.Phases {
			if p.From >= p.To || p.To > cycleSeconds {
				t.Errorf("%s: a phase from %d to %d", name, p.From, p.To)
			}
		}
	}
}

package chaos

import (
	"slices"
	"testing"
	"time"
)

// TestPlan_FollowsFromTheSeed looks at what a run of ten minutes breaks, and at the short one that is part of all tests.
func TestPlan_FollowsFromTheSeed(t *testing.T) {
	for seed := range uint64(20) {
		list := plan(seed, 10*time.Minute, true)
		if !slices.Equal(list, plan(seed, 10*time.Minute, true)) {
			t.Fatalf("seed %d gives two plans", seed)
		}
		kinds := map[string]int{}
		for _, f := range list {
			kinds[f.kind]++
		}
		if n := kinds[kindKill] + kinds[kindAway]; n < 100 {
			t.Errorf("seed %d kills %d times in ten minutes", seed, n)
		}
		for _, s := range sorts(true) {
			if kinds[s.kind] == 0 {
				t.Errorf("seed %d has no %s", seed, s.kind)
			}
		}
	}
	if slices.Equal(plan(1, time.Minute, true), plan(2, time.Minute, true)) {
		t.Error("two seeds give the same plan")
	}
}

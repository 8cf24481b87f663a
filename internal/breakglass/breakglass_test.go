package breakglass

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestActive(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, text string
		on, fails  bool
	}{
		{"now", `{"since":"2026-12-01T11:59:00Z","until":"2026-12-01T12:14:00Z"}`, true, false},
		{"over", `{"since":"2026-12-01T11:00:00Z","until":"2026-12-01T12:00:00Z"}`, false, false},
		{"longer than may be", `{"since":"2026-12-01T11:59:00Z","until":"2026-12-03T12:00:00Z"}`, false, true},
		{"written by hand, without a beginning", `{"until":"2026-12-01T12:14:00Z"}`, false, true},
		{"from the future, as the clock was set back", `{"since":"2026-12-01T14:00:00Z","until":"2026-12-01T15:00:00Z"}`, false, true},
		{"half a file", `{"since":`, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "disabled.json")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			until, err := active(file, nil, now)
			if !until.IsZero() != c.on || (err != nil) != c.fails {
				t.Errorf("got %v, %v", until, err)
			}
		})
	}
	if until, err := active(filepath.Join(t.TempDir(), "none"), nil, now); err != nil || !until.IsZero() {
		t.Errorf("without a file: %v, %v", until, err)
	}
}

func TestDisableRefusesInsaneTimes(t *testing.T) {
	for _, d := range []time.Duration{-time.Minute, 0, time.Second, 25 * time.Hour} {
		if _, err := Disable(time.Now(), d, ""); err == nil {
			t.Errorf("%s was accepted", d)
		}
	}
}

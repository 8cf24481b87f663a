// Package breakglass is the way to start containers when policy is wrong and time
// is short: for a while nothing is refused, and everything that would have been
// is logged. Only root can ask for it, and no reboot leaves it.
package breakglass

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/nodeadmit/nodeadmit/internal/rootfile"
)

// File says until when nothing is refused. /run doesn't survive a reboot.
const File = "/run/nodeadmit/disabled.json"

// Longest and Shortest bound what may be asked for.
const (
	Longest  = 24 * time.Hour
	Shortest = time.Minute
)

type document struct {
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	Reason string    `json:"reason,omitempty"`
}

// Disable has nothing refused for a while, and returns until when.
func Disable(now time.Time, d time.Duration, reason string) (time.Time, error) {
	if d < Shortest || d > Longest {
		return time.Time{}, fmt.Errorf("%s: want a time from %s to %s", d, Shortest, Longest)
	}
	doc := document{now.UTC(), now.Add(d).UTC(), reason}
	data, err := json.Marshal(doc)
	if err != nil {
		return time.Time{}, err
	}
	return doc.Until, rootfile.Write(File, append(data, '\n'))
}

// Enable ends it. It reports whether it was on.
func Enable(now time.Time) (bool, error) {
	until, _ := Active(now)
	if err := os.Remove(File); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return !until.IsZero(), nil
}

// Active returns until when nothing is refused, the zero time if it isn't so. A
// file that isn't root's alone, or says more than may be asked for, is an error
// and doesn't count; so is one from the future, after the clock was set back.
func Active(now time.Time) (time.Time, error) { return active(File, rootfile.Check, now) }

func active(file string, check func(string, fs.FileInfo) error, now time.Time) (time.Time, error) {
	data, _, err := rootfile.Read(file, 4096, check)
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	var doc document
	if err := json.Unmarshal(data, &doc); err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", file, err)
	}
	if doc.Until.Sub(doc.Since) > Longest || doc.Until.Sub(now) > Longest || doc.Since.After(now.Add(time.Minute)) {
		return time.Time{}, fmt.Errorf("%s: reaches further than %s: it doesn't count", file, Longest)
	}
	if !now.Before(doc.Until) {
		return time.Time{}, nil
	}
	return doc.Until, nil
}

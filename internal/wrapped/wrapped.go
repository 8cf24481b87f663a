// Package wrapped finds the runtime behind a wrapper's name.
package wrapped

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nodeadmit/nodeadmit/internal/config"
)

// Dir holds the wrappers' names. A name without a slash is looked for here and
// never in PATH.
const Dir = "/usr/lib/nodeadmit/runtimes"

// Find returns the real runtime, which the link NAME.real beside the name gives,
// and the configuration file, which the link NAME.config gives if there is one.
func Find(name string) (real, configFile string, err error) {
	if !strings.Contains(name, "/") {
		name = filepath.Join(Dir, name)
	}
	real, err = os.Readlink(name + ".real")
	if err != nil {
		return "", "", fmt.Errorf("the real runtime is not known: %w (ln -s /path/of/the/runtime %s.real)", err, name)
	}
	if !filepath.IsAbs(real) {
		return "", "", fmt.Errorf("%s.real points to %q: want the absolute path of the real runtime", name, real)
	}
	configFile, err = os.Readlink(name + ".config")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return real, config.DefaultPath, nil
	case err != nil:
		return "", "", fmt.Errorf("configuration: %w (want a symbolic link)", err)
	case !filepath.IsAbs(configFile):
		return "", "", fmt.Errorf("%s.config points to %q: want an absolute path", name, configFile)
	}
	return real, configFile, nil
}

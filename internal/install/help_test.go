package install

import (
	"strings"
	"testing"

	"github.com/nodeadmit/nodeadmit/internal/ociargs"
)

func TestHelpFlags(t *testing.T) {
	const urfave = `NAME:
   runc create - create a container

OPTIONS:
   --bundle value, -b value  path to the root of the bundle directory
   --pid-file value          specify the file to write the process id to; see --help
   --no-pivot                do not use pivot root
`
	const argp = `Usage: crun [OPTION...] create [OPTION]... CONTAINER
OCI runtime

  -b, --bundle=DIR           container bundle (default ".")
      --console-socket=SOCK  path to a socket
  -?, --help                 Give this help list
`
	for _, c := range []struct{ name, text, want string }{
		{"urfave/cli", urfave, "bundle pid-file no-pivot"},
		{"argp", argp, "bundle console-socket help"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.Join(helpFlags(c.text), " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestHasFlag(t *testing.T) {
	if !ociargs.Runc.HasFlag("create", "bundle") || ociargs.Runc.HasFlag("create", "nonesuch") || !ociargs.Crun.HasFlag("create", "program-name") {
		t.Error("the tables are read wrongly")
	}
}

package ociargs

import (
	"reflect"
	"strings"
	"testing"
)

// words splits a command line of tests; ” is an empty word.
func words(line string) []string {
	args := strings.Fields(line)
	for i, a := range args {
		if a == "''" {
			args[i] = ""
		}
		args[i] = strings.ReplaceAll(args[i], "_", " ")
	}
	return args
}

func TestParse(t *testing.T) {
	const judged, passes, refused = "judged", "passes", "refused"
	tests := []struct {
		name    string
		g       Grammar
		line    string // _ is a space inside a word
		want    string
		command string
		bundle  string
		config  string
		id      string
		canon   string // "" is not compared
	}{
		{"containerd's create", Runc, "--root /r --log /b/log.json --log-format json --systemd-cgroup create --bundle /b --pid-file /b/init.pid ID", judged, "create", "/b", "", "ID",
			"--root=/r --log=/b/log.json --log-format=json --systemd-cgroup create --bundle=/b --pid-file=/b/init.pid -- ID"},
		{"conmon's create without globals", Runc, "create --bundle /b --pid-file /p ID", judged, "create", "/b", "", "ID", "create --bundle=/b --pid-file=/p -- ID"},
		{"run without a bundle reads the working directory", Runc, "run ID", judged, "run", "", "", "ID", "run -- ID"},
		{"an empty bundle is the working directory", Runc, "run --bundle= ID", judged, "run", "", "", "ID", "run --bundle= -- ID"},
		{"restore", Runc, "restore -d --image-path /i --bundle /b ID", judged, "restore", "/b", "", "ID", "restore --detach --image-path=/i --bundle=/b -- ID"},
		{"one dash and two are the same", Runc, "-root /r create -bundle=/b ID", judged, "create", "/b", "", "ID", "--root=/r create --bundle=/b -- ID"},
		{"a value keeps its further equals signs", Runc, "create --bundle=/b=c ID", judged, "create", "/b=c", "", "ID", ""},
		{"the short form with an equals sign", Runc, "create -b=/b ID", judged, "create", "/b", "", "ID", ""},
		{"a joined short value is refused", Runc, "create -b/b ID", refused, "", "", "", "", ""},
		{"the last bundle wins", Runc, "create --bundle /a --bundle /b ID", judged, "create", "/b", "", "ID", "create --bundle=/a --bundle=/b -- ID"},
		{"two forms of bundle are refused", Runc, "create -b /a --bundle /b ID", refused, "", "", "", "", ""},
		{"flags after the id", Runc, "run ID --bundle /b", judged, "run", "/b", "", "ID", "run --bundle=/b -- ID"},
		{"a switch that pulls the id away is refused", Runc, "run --no-pivot ID --bundle /b", refused, "", "", "", "", ""},
		{"a switch before the id", Runc, "create --bundle /b --no-pivot ID", judged, "create", "/b", "", "ID", "create --bundle=/b --no-pivot -- ID"},
		{"a switch with a value", Runc, "create --no-pivot=false --bundle /b ID", judged, "create", "/b", "", "ID", "create --no-pivot=false --bundle=/b -- ID"},
		{"a switch that is no boolean is refused", Runc, "create --no-pivot=perhaps --bundle /b ID", refused, "", "", "", "", ""},
		{"an id after two dashes may look like a flag", Runc, "run -- --bundle", judged, "run", "", "", "--bundle", "run -- --bundle"},
		{"two dashes before the command", Runc, "-- create --bundle /b ID", judged, "create", "/b", "", "ID", "create --bundle=/b -- ID"},
		{"a bundle called like a flag", Runc, "create --bundle --pid-file ID", judged, "create", "--pid-file", "", "ID", "create --bundle=--pid-file -- ID"},
		{"a relative bundle stays relative", Runc, "create --bundle ../b ID", judged, "create", "../b", "", "ID", ""},
		{"a missing id is refused", Runc, "create --bundle /b", refused, "", "", "", "", ""},
		{"two ids are refused", Runc, "create --bundle /b ID ID2", refused, "", "", "", "", ""},
		{"an empty id is refused", Runc, "create --bundle /b ''", refused, "", "", "", "", ""},
		{"an empty id after a flag that only some versions see is refused", Runc, "run _--bundle --help ''", refused, "", "", "", "", ""},
		{"a missing value is refused", Runc, "create ID --bundle", refused, "", "", "", "", ""},
		{"a word with white space around it is refused", Runc, "create _--bundle=/b ID", refused, "", "", "", "", ""},
		{"a bundle with white space at its end is refused", Runc, "create --bundle=/b_ ID", refused, "", "", "", "", ""},
		{"a command with white space around it is refused", Runc, "_create --bundle=/b ID", refused, "", "", "", "", ""},
		{"a global flag with white space before it is refused", Runc, "_--root /r create --bundle=/b ID", refused, "", "", "", "", ""},
		{"a global flag after the command is moved before it", Runc, "create --root /r --bundle /b ID", judged, "create", "/b", "", "ID", "--root=/r create --bundle=/b -- ID"},
		{"config of runc's development branch is refused", Runc, "create --config /c --bundle /b ID", refused, "", "", "", "", ""},
		{"config of runc's development branch is refused when joined", Runc, "create --config=/c --bundle /b ID", refused, "", "", "", "", ""},
		{"help of a judged command passes", Runc, "create --help", passes, "create", "", "", "", "create --help"},
		{"help before bundle and id passes", Runc, "create -h --bundle /b ID", passes, "create", "", "", "", ""},
		{"help after bundle and id passes", Runc, "create --bundle /b ID --help", passes, "create", "", "", "", ""},
		{"help that is false is judged", Runc, "create --help=false --bundle /b ID", judged, "create", "/b", "", "ID", "create --bundle=/b -- ID"},
		{"help that is taken back is judged", Runc, "create --help --bundle /b ID --help=0", judged, "create", "/b", "", "ID", "create --bundle=/b -- ID"},
		{"help as a bundle is judged", Runc, "create --bundle --help ID", judged, "create", "--help", "", "ID", "create --bundle=--help -- ID"},
		{"help as an id is judged", Runc, "create --bundle /b -- --help", judged, "create", "/b", "", "--help", ""},
		{"global help passes", Runc, "--help create --bundle /b ID", passes, "", "", "", "", ""},
		{"global help that is false is judged", Runc, "--help=false create --bundle /b ID", judged, "create", "/b", "", "ID", "create --bundle=/b -- ID"},
		{"a global version passes", Runc, "-v create --bundle /b ID", passes, "", "", "", "", ""},
		{"version passes", Runc, "--version", passes, "", "", "", "", "--version"},
		{"no word at all passes", Runc, "", passes, "", "", "", "", ""},
		{"an unknown flag with a joined value is handed on", Runc, "create --new=x --bundle /b ID", judged, "create", "/b", "", "ID", "create --new=x --bundle=/b -- ID"},
		{"an unknown flag before a switch is handed on", Runc, "create --new --no-pivot --bundle /b ID", judged, "create", "/b", "", "ID", "create --new --no-pivot --bundle=/b -- ID"},
		{"an unknown flag before bundle is refused", Runc, "create --new --bundle /b ID", refused, "", "", "", "", ""},
		{"an unknown flag before a joined bundle is refused", Runc, "create --new --bundle=/b ID", refused, "", "", "", "", ""},
		{"an unknown flag before the id is refused", Runc, "create --bundle /b --new ID", refused, "", "", "", "", ""},
		{"an unknown flag with a separate value is refused", Runc, "create --bundle /b --new x ID", refused, "", "", "", "", ""},
		{"an unknown flag before help is refused or passes, never judged", Runc, "create --new --help", passes, "create", "", "", "", ""},
		{"an unknown global flag before a judged command is refused", Runc, "--new=1 create --bundle /b ID", refused, "", "", "", "", ""},
		{"an unknown global flag is refused if a judged command's name stands anywhere", Runc, "--new kill create", refused, "", "", "", "", ""},
		{"an unknown global flag before another command passes", Runc, "--new kill c1", passes, "kill", "", "", "", "--new kill c1"},
		{"a container called create", Runc, "kill create 9", passes, "kill", "", "", "", "kill create 9"},
		{"a root called create", Runc, "--root create state run", passes, "state", "", "", "", "--root create state run"},
		{"an unknown command passes", Runc, "frobnicate create", passes, "frobnicate", "", "", "", ""},
		{"a command's prefix is another command", Runc, "creat --bundle /b ID", passes, "creat", "", "", "", ""},
		{"exec stops reading flags at the id", Runc, "exec --process /p ID --bundle /b", passes, "exec", "", "", "ID", "exec --process /p ID --bundle /b"},

		{"crun: containerd's create", Crun, "--root /r --log /b/log.json --log-format json --systemd-cgroup create --bundle /b --pid-file /b/init.pid ID", judged, "create", "/b", "", "ID",
			"--root=/r --log=/b/log.json --log-format=json --systemd-cgroup create --bundle=/b --pid-file=/b/init.pid -- ID"},
		{"crun: an abbreviation that only old versions find unambiguous is refused", Crun, "--roo /r create --bundle /b ID", refused, "", "", "", "", ""},
		{"crun: an ambiguous abbreviation of config is refused", Crun, "create --con=/c --bundle /b ID", refused, "", "", "", "", ""},
		{"crun: rootless, which crun 1.8 takes for root, is refused", Crun, "--root /r --rootless /x create --bundle /b ID", refused, "", "", "", "", ""},
		{"crun: rootless before root", Crun, "--rootless /x --root /r create --bundle /b ID", judged, "create", "/b", "", "ID", ""},
		{"crun: abbreviated options", Crun, "--log-f json create --bun /b --conf=/c --pid /p ID", judged, "create", "/b", "/c", "ID", "--log-format=json create --bundle=/b --config=/c --pid-file=/p -- ID"},
		{"crun: joined short options", Crun, "run -f/c -b/b ID", judged, "run", "/b", "/c", "ID", "run --config=/c --bundle=/b -- ID"},
		{"crun: a short option keeps the equals sign", Crun, "run -b=/b ID", judged, "run", "=/b", "", "ID", ""},
		{"crun: a cluster", Crun, "run -db /b ID", judged, "run", "/b", "", "ID", "run --detach --bundle=/b -- ID"},
		{"crun: the last of -b and --bundle wins", Crun, "run -b /a --bundle /b ID", judged, "run", "/b", "", "ID", ""},
		{"crun: options after the id are refused", Crun, "run ID --bundle /b", refused, "", "", "", "", ""},
		{"crun: one dash is not two", Crun, "create -bundle=/b ID", judged, "create", "undle=/b", "", "ID", "create --bundle=undle=/b -- ID"},
		{"crun: an ambiguous abbreviation is refused", Crun, "create --no- --bundle /b ID", refused, "", "", "", "", ""},
		{"crun: a switch allows no value", Crun, "create --no-pivot=true --bundle /b ID", refused, "", "", "", "", ""},
		{"crun: an empty bundle is refused", Crun, "create --bundle= ID", refused, "", "", "", "", ""},
		{"crun: an empty config is refused", Crun, "create --config= ID", refused, "", "", "", "", ""},
		{"crun: help ends at once", Crun, "create --help --bundle /b ID", passes, "create", "", "", "", ""},
		{"crun: a question mark ends at once", Crun, "create -? --nonsense", passes, "create", "", "", "", ""},
		{"crun: abbreviated help ends at once", Crun, "create --he", passes, "create", "", "", "", ""},
		{"crun: help as a value is judged", Crun, "create --bundle --help ID", judged, "create", "--help", "", "ID", ""},
		{"crun: version in a cluster", Crun, "-vb create ID", passes, "", "", "", "", ""},
		{"crun: two dashes before command and id", Crun, "-- create -- --bundle", judged, "create", "", "", "--bundle", "create -- --bundle"},
		{"crun: restore's network-lock takes the next word", Crun, "restore --network-lock --bundle /b", judged, "restore", "", "", "/b", "restore --network-lock --bundle -- /b"},
		{"crun: restore has no config, its abbreviation is refused", Crun, "restore --conf=/c ID", refused, "", "", "", "", ""},
		{"crun: a second argument of restore is refused", Crun, "restore --bundle /b ID more", refused, "", "", "", "", ""},
		{"crun: an unknown option with a joined value is handed on", Crun, "create --new=x --bundle /b ID", judged, "create", "/b", "", "ID", "create --new=x --bundle=/b -- ID"},
		{"crun: an unknown option before bundle is refused", Crun, "create --new --bundle /b ID", refused, "", "", "", "", ""},
		{"crun: an unknown short option in a cluster is refused", Crun, "create -xb /b ID", refused, "", "", "", "", ""},
		{"crun: argp's hidden options are known", Crun, "create --program-name x --HANG --bundle /b ID", judged, "create", "/b", "", "ID", "create --program-name=x --HANG --bundle=/b -- ID"},
		{"crun: an optional value is only a joined one", Crun, "exec -t false ID", passes, "exec", "", "", "false", ""},
		{"no grammar", "youki", "create ID", refused, "", "", "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := words(tt.line)
			c, err := Parse(tt.g, args)
			if tt.want == refused {
				if err == nil {
					t.Fatalf("not refused: %+v", c)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.Judged() != (tt.want == judged) {
				t.Fatalf("judged %v, want %s", c.Judged(), tt.want)
			}
			if c.Name != tt.command || c.Bundle != tt.bundle || c.Config != tt.config || c.ID != tt.id {
				t.Errorf("name %q bundle %q config %q id %q", c.Name, c.Bundle, c.Config, c.ID)
			}
			if got := strings.Join(c.Canonical(), " "); tt.canon != "" && got != tt.canon {
				t.Errorf("canonical\n got %s\nwant %s", got, tt.canon)
			}
			if c.Judged() && !MaybeJudged(args) {
				t.Error("judged, but the front would pass it on")
			}
			if !c.Judged() && !reflect.DeepEqual(c.Canonical(), append([]string(nil), args...)) {
				t.Error("what is not judged is changed")
			}
			roundTrip(t, c)
		})
	}
}

// roundTrip checks that the canonical argv is read as the same command.
func roundTrip(t *testing.T, c *Command) {
	t.Helper()
	again, err := Parse(c.Grammar, c.Canonical())
	if err != nil {
		t.Fatalf("canonical %q: %v", c.Canonical(), err)
	}
	if !reflect.DeepEqual(c, again) {
		t.Errorf("canonical %q is read as another command\nfirst  %+v\nsecond %+v", c.Canonical(), c, again)
	}
}

func TestParseFillsTheFieldsAJudgeNeeds(t *testing.T) {
	c, err := Parse(Runc, words("--root /r --log /l --log-format json --rootless auto --debug --systemd-cgroup run -d --bundle /b --pid-file /p --console-socket /s --new=1 ID"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Root != "/r" || c.Log != "/l" || c.LogFormat != "json" || c.Rootless != "auto" || !c.Debug || !c.SystemdCgroup ||
		!c.Detach || c.PidFile != "/p" || c.ConsoleSocket != "/s" || c.ConfigPath() != "/b/config.json" {
		t.Errorf("%+v", c)
	}
	if !reflect.DeepEqual(c.Unknown, []string{"--new=1"}) || len(c.Flags) != 11 {
		t.Errorf("unknown %q, flags %+v", c.Unknown, c.Flags)
	}

	c, err = Parse(Runc, words("exec -p /p -d ID sh -c x"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Process != "/p" || !c.Detach || c.ID != "ID" || !reflect.DeepEqual(c.Args, words("sh -c x")) {
		t.Errorf("%+v", c)
	}
	c, err = Parse(Runc, words("exec --nonsense"))
	if err == nil || c == nil || c.Name != "exec" {
		t.Errorf("a broken exec: %+v, %v", c, err)
	}

	c, err = Parse(Crun, words("--cgroup-manager systemd --log-level debug create -f config.json ID"))
	if err != nil {
		t.Fatal(err)
	}
	if !c.SystemdCgroup || !c.Debug || c.ConfigPath() != "config.json" {
		t.Errorf("%+v", c)
	}
}

func TestParseWithFlagsFromConfiguration(t *testing.T) {
	extra := []ExtraFlag{{"create", "new", true}, {"", "newglobal", false}}
	for _, g := range []Grammar{Runc, Crun} {
		c, err := ParseWith(g, extra, words("--newglobal create --new x --bundle /b ID"))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(c.Canonical(), " "); got != "--newglobal create --new=x --bundle=/b -- ID" {
			t.Error(got)
		}
	}
}

func TestMaybeJudged(t *testing.T) {
	for line, want := range map[string]bool{
		"kill create 9":                         false,
		"--root create state run":               false,
		"delete --force create":                 false,
		"--log create --log-format json kill x": false,
		"exec -d --process /p create":           false,
		"exec ID create":                        false,
		"features":                              false,
		"--version":                             false,
		"":                                      false,
		"--root /r state c1":                    false,
		"--new kill c1":                         false,
		"--debug kill run":                      false,
		"-- kill run":                           false,
		"--version create":                      false,
		"create ID":                             true,
		"create --help":                         true,
		"--root /r restore --bundle /b ID":      true,
		"-- run ID":                             true,
		"--new create":                          true,
		"--new kill create":                     true,
		"--help=false create ID":                true,
		"_create ID":                            true,
		"create_ ID":                            true,
		"_--root x create":                      true,
		"--roo x create ID":                     true,
		"--root x create ID":                    true,
		"--log-fo x create ID":                  true,
		"--cgroup-manager kill create ID":       true,
		"--root= create ID":                     true,
		"-root x create ID":                     true,
		"--root x kill create":                  false,
		"--root=create kill run":                false,
		"--log-format json --log run start restore": false,
	} {
		t.Run(line, func(t *testing.T) {
			if got := MaybeJudged(words(line)); got != want {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

func TestErrorsAreOneLine(t *testing.T) {
	_, err := Parse(Runc, []string{"create", "--x\n\x1b[1m" + strings.Repeat("a", 5000), "--bundle", "b", "id"})
	if err == nil {
		t.Fatal("no error")
	}
	if s := err.Error(); strings.ContainsAny(s, "\n\x1b") || len(s) > 700 {
		t.Errorf("%q", s)
	}
}

func fuzz(f *testing.F, g Grammar) {
	for _, line := range []string{
		"--root /r create --bundle /b --pid-file /p ID", "run ID --bundle b", "create -b/x ID", "--help=false restore -- --bundle",
		"run -db/x -f/c -- ID", "create --new --no-pivot ID", "restore --network-lock -b x", "exec -p /p ID x", "_create b", "--log-f json kill x",
	} {
		f.Add(strings.Join(words(line), "\x00"))
	}
	f.Fuzz(func(t *testing.T, joined string) {
		args := strings.Split(joined, "\x00")
		maybe := MaybeJudged(args)
		c, err := Parse(g, args)
		if err != nil {
			_ = err.Error()
			return
		}
		if c.Judged() && !maybe {
			t.Fatalf("%q is judged, but the front would pass it on", args)
		}
		roundTrip(t, c)
	})
}

func FuzzParseRunc(f *testing.F) { fuzz(f, Runc) }
func FuzzParseCrun(f *testing.F) { fuzz(f, Crun) }

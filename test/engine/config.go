package engine

import (
	"bytes"
	"text/template"
)

// configuration is containerd's, in version 2 for containerd 1 and in version 3
// for containerd 2 (which has CRI in two plugins).
//
// restrict_oom_score_adj: without CAP_SYS_RESOURCE, as in many CI machines, a
// sandbox's -998 can't be set. netns_mounts_under_state_dir: not in the
// machine's /var/run/netns.
var configuration = template.Must(template.New("config.toml").Parse(`
{{- $two := ge .Tools.Major 2 -}}
{{- $runtime := "io.containerd.grpc.v1.cri" -}}
{{- if $two }}{{ $runtime = "io.containerd.cri.v1.runtime" }}{{ end -}}
version = {{ if $two }}3{{ else }}2{{ end }}
root = "{{ .Base }}/root"
state = "{{ .Base }}/state"
oom_score = 0
disabled_plugins = [
  "io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.nri.v1.nri",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = "{{ .Base }}/c.sock"
[ttrpc]
  address = "{{ .Base }}/c.sock.ttrpc"
[debug]
  level = "{{ .LogLevel }}"

{{ if $two }}
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{{ .PauseImage }}"
[plugins."io.containerd.cri.v1.images".registry]
  config_path = "{{ .Base }}/certs.d"
{{ end }}
[plugins."{{ $runtime }}"]
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
{{- if not $two }}
  sandbox_image = "{{ .PauseImage }}"
  stream_server_address = "127.0.0.1"
  [plugins."{{ $runtime }}".registry]
    config_path = "{{ .Base }}/certs.d"
{{- end }}
  [plugins."{{ $runtime }}".cni]
    {{ if $two }}bin_dirs = ["{{ .Base }}/cni/bin"]{{ else }}bin_dir = "{{ .Base }}/cni/bin"{{ end }}
    conf_dir = "{{ .Base }}/cni/net.d"
  [plugins."{{ $runtime }}".containerd]
    default_runtime_name = "{{ (index .Handlers 0).Name }}"
{{- range .Handlers }}
  [plugins."{{ $runtime }}".containerd.runtimes."{{ .Name }}"]
    runtime_type = "io.containerd.runc.v2"
{{ .Extra }}
    [plugins."{{ $runtime }}".containerd.runtimes."{{ .Name }}".options]
      BinaryName = "{{ .BinaryName }}"
      Root = "{{ $.Base }}/runc"
      SystemdCgroup = false
{{- end }}
`))

type configValues struct {
	Base       string
	Tools      Tools
	PauseImage string
	LogLevel   string
	Handlers   []Handler
}

func (v configValues) render() ([]byte, error) {
	var out bytes.Buffer
	err := configuration.Execute(&out, v)
	return out.Bytes(), err
}

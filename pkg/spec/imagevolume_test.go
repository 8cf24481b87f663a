package spec

import (
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

func TestImageVolumesOfCRIO(t *testing.T) {
	t.Parallel()
	const image = "lowerdir=/var/lib/containers/storage/overlay/0123/merged:/var/run/crio/image-volumes"
	for name, c := range map[string]struct {
		engine  Dialect
		options []string
		want    MountClass
	}{
		"an image in the storage is a volume":     {CRIO, []string{image}, MountVolume},
		"with a layer to write to it is not":      {CRIO, []string{image, "upperdir=/etc", "workdir=/w"}, MountForeign},
		"nor with one hidden in an option":        {CRIO, []string{image + ",upperdir=/etc"}, MountForeign},
		"a layer of the host's is foreign":        {CRIO, []string{"lowerdir=/etc:/var/run/crio/image-volumes"}, MountForeign},
		"so is one that leads out of the storage": {CRIO, []string{"lowerdir=/var/lib/containers/storage/../../../etc"}, MountForeign},
		"containerd makes none like it":           {Containerd, []string{image}, MountForeign},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := &Intent{Engine: NewEngine(c.engine)}
			s := &specs.Spec{Mounts: []specs.Mount{{Destination: "/data", Type: "overlay", Source: "overlay", Options: c.options}}}
			m := newMountMapper(in, &Document{Spec: s}, Options{Engine: in.Engine})
			if err := m.mapMounts(s); err != nil {
				t.Fatal(err)
			}
			if got := in.Mounts[0].Class; got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

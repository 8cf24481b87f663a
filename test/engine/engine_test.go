package engine

import (
	"testing"
	"time"
)

func TestStart(t *testing.T) {
	for _, f := range Flavours {
		t.Run(string(f), func(t *testing.T) {
			now := time.Now()
			e, err := Start(t.Context(), Options{Flavour: f})
			if err != nil {
				t.Fatal(err)
			}
			t.Log("up", time.Since(now), e.Tools)
			t.Log(e.Registry.Pulls("pause:3.10"))
			now = time.Now()
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			t.Log("down", time.Since(now))
		})
	}
}

// Command probe says what container it woke up in, as JSON.
package main

import (
	"encoding/json"
	"os"
)

func main() {
	host, _ := os.Hostname()
	dir, _ := os.Getwd()
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
		"Hostname": host, "Args": os.Args, "Cwd": dir, "Env": os.Getenv("PROBE"), "UID": os.Getuid(),
	})
}

// Command generate writes the Go stubs of proto/ with protoc-gen-go and
// protoc-gen-go-grpc. It needs no protoc. It is a module of its own, so that
// nothing of it is linked.
//
//	cd proto/generate && go run .
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	root = ".."
	file = "nodeadmit/plugin/v1/plugin.proto"
	// module is cut off the paths that the generators write.
	module = "github.com/nodeadmit/nodeadmit/proto"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	c := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{root}},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := c.Compile(context.Background(), file)
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{file}, Parameter: proto.String("module=" + module),
		ProtoFile:       []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(files[0])},
		CompilerVersion: &pluginpb.Version{Major: proto.Int32(0)},
	}
	in, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	for _, generator := range []string{"google.golang.org/protobuf/cmd/protoc-gen-go", "google.golang.org/grpc/cmd/protoc-gen-go-grpc"} {
		cmd := exec.Command("go", "run", generator)
		cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s: %w", generator, err)
		}
		var response pluginpb.CodeGeneratorResponse
		if err := proto.Unmarshal(out, &response); err != nil {
			return err
		}
		if response.Error != nil {
			return fmt.Errorf("%s: %s", generator, response.GetError())
		}
		for _, f := range response.File {
			text := strings.ReplaceAll(f.GetContent(), "(unknown)", "none")
			if err := os.WriteFile(filepath.Join(root, f.GetName()), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

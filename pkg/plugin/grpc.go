package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/nodeadmit/nodeadmit/proto/nodeadmit/plugin/v1"
)

// grpcAsker asks a gRPC server. It connects anew for each question: a connection that
// is kept would answer for a server that was restarted, where an evaluator that is
// started for the question would not.
type grpcAsker struct {
	*Config
	target  string
	options []grpc.DialOption
}

func newGRPC(c *Config) (asker, error) {
	a := &grpcAsker{Config: c, target: "passthrough:///" + c.Name, options: []grpc.DialOption{
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxOutput)),
	}}
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return dialSocket(ctx, c.Socket) }
	identity := insecure.NewCredentials() // both ends of the socket are root's
	if c.Address != "" {
		config, err := tlsConfig(c)
		if err != nil {
			return nil, err
		}
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(c.Address)
		}
		identity = credentials.NewTLS(config)
		dial = func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", c.Address)
		}
	}
	a.options = append(a.options, grpc.WithContextDialer(dial), grpc.WithTransportCredentials(identity))
	return a, nil
}

func (a *grpcAsker) close() {}

func (a *grpcAsker) with(f func(grpc.ClientConnInterface) error) error {
	conn, err := grpc.NewClient(a.target, a.options...)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = f(conn)
	switch s, ok := status.FromError(err); {
	case ok && s.Code() == codes.DeadlineExceeded: // the server may notice it first
		return context.DeadlineExceeded
	case ok && s.Code() != codes.OK:
		return fmt.Errorf("%s: %s", s.Code(), text(s.Message()))
	}
	return err
}

var grpcMoments = map[string]pluginv1.Moment{
	"sandbox": pluginv1.Moment_MOMENT_SANDBOX, "container": pluginv1.Moment_MOMENT_CONTAINER,
	"lateCheck": pluginv1.Moment_MOMENT_LATE_CHECK, "unmanaged": pluginv1.Moment_MOMENT_UNMANAGED,
}

func (a *grpcAsker) review(ctx context.Context, r *Request) (*Response, error) {
	r = r.withUID()
	q := &pluginv1.ReviewRequest{
		Uid: r.UID, Moment: grpcMoments[r.Moment], Node: r.Node, Engine: r.Engine, RuntimeHandler: r.RuntimeHandler,
		Container: r.Container, Unknown: r.Unknown, Spec: r.Spec, BundleDigest: r.BundleDigest,
	}
	if r.Review != nil {
		var err error
		if q.AdmissionReview, err = json.Marshal(r.Review); err != nil {
			return nil, err
		}
	}
	var answer *pluginv1.ReviewResponse
	err := a.with(func(c grpc.ClientConnInterface) (err error) {
		answer, err = pluginv1.NewPluginServiceClient(c).Review(ctx, q)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &Response{UID: answer.Uid, Message: answer.Message, Warnings: answer.Warnings, AuditAnnotations: answer.AuditAnnotations}
	switch answer.Verdict {
	case pluginv1.Verdict_VERDICT_ALLOW:
		out.Allowed = new(true)
	case pluginv1.Verdict_VERDICT_DENY:
		out.Allowed = new(false)
	default:
		return nil, errors.New("its answer has no verdict")
	}
	return out, nil
}

// check asks for the server's health.
func (a *grpcAsker) check(ctx context.Context) error {
	return a.with(func(c grpc.ClientConnInterface) error {
		answer, err := healthpb.NewHealthClient(c).Check(ctx, &healthpb.HealthCheckRequest{Service: pluginv1.PluginService_ServiceDesc.ServiceName})
		if status.Code(err) == codes.NotFound {
			answer, err = healthpb.NewHealthClient(c).Check(ctx, &healthpb.HealthCheckRequest{})
		}
		if err == nil && answer.Status != healthpb.HealthCheckResponse_SERVING {
			err = fmt.Errorf("its health is %s", answer.Status)
		}
		return err
	})
}

package temporal

import (
	"context"

	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/proxy"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// decryptAnswers decrypts what the SDK hands on as Temporal stores it: memos of lists and descriptions, failures of pending activities, and histories. What
// cannot be decrypted stays as it is; who reads it gets the error.
func decryptAnswers(keys Keys) grpc.UnaryClientInterceptor {
	codec, data := encryption{keys}, EncryptedDataConverter(keys)
	return func(ctx context.Context, method string, request, answer any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		if err := invoke(ctx, method, request, answer, connection, options...); err != nil {
			return err
		}
		switch answer.(type) {
		case *workflowservice.DescribeWorkflowExecutionResponse, *workflowservice.ListWorkflowExecutionsResponse, *workflowservice.GetWorkflowExecutionHistoryResponse:
			return decryptIn(ctx, answer.(proto.Message), codec, data)
		}
		return nil
	}
}

func decryptIn(ctx context.Context, answer proto.Message, codec encryption, data converter.DataConverter) error {
	err := proxy.VisitFailures(ctx, answer, proxy.VisitFailuresOptions{Visitor: func(_ *proxy.VisitFailuresContext, failure *failurepb.Failure) error {
		for part := failure; part != nil; part = part.GetCause() {
			converter.DecodeCommonFailureAttributes(data, part)
		}
		return nil
	}})
	if err != nil {
		return err
	}
	return proxy.VisitPayloads(ctx, answer, proxy.VisitPayloadsOptions{
		SkipSearchAttributes: true,
		Visitor: func(_ *proxy.VisitPayloadsContext, payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
			decrypted := make([]*commonpb.Payload, len(payloads))
			for i, payload := range payloads {
				decrypted[i] = payload
				if plain, err := codec.Decode([]*commonpb.Payload{payload}); err == nil {
					decrypted[i] = plain[0]
				}
			}
			return decrypted, nil
		},
	})
}

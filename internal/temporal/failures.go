package temporal

import (
	"context"
	"errors"
	"slices"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/proxy"
	"go.temporal.io/sdk/converter"
	sdktemporal "go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"
)

// failureConverter encrypts messages and stack traces of failures, if there are keys. Types of failures stay readable.
type failureConverter struct {
	converter.FailureConverter
	codec encryption
	// panics: a failure whose key is missing fails the workflow task. Without its details the workflow would continue with a wrong state.
	panics bool
}

func newFailureConverter(keys Keys, data converter.DataConverter, panics bool) converter.FailureConverter {
	return failureConverter{
		FailureConverter: sdktemporal.NewDefaultFailureConverter(sdktemporal.DefaultFailureConverterOptions{DataConverter: data, EncodeCommonAttributes: keys != nil}),
		codec:            encryption{keys}, panics: panics,
	}
}

// undecodable are the beginnings of the SDK's errors for the inputs of workflows and updates that cannot be decoded.
var undecodable = []string{"unable to decode the workflow function input payload", "unable to decode the input for update"}

// ErrorToFailure implements converter.FailureConverter. An input that cannot be decoded is an invalid request of a client, as one with wrong values.
func (f failureConverter) ErrorToFailure(err error) *failurepb.Failure {
	if errors.Is(err, converter.ErrUnableToDecode) && slices.ContainsFunc(undecodable, func(start string) bool { return strings.HasPrefix(err.Error(), start) }) {
		err = Error(ErrInvalidSpec, err.Error(), nil)
	}
	return f.FailureConverter.ErrorToFailure(err)
}

// FailureToError implements converter.FailureConverter.
func (f failureConverter) FailureToError(failure *failurepb.Failure) error {
	missing := f.missingKey(failure)
	switch {
	case missing == nil:
		return f.FailureConverter.FailureToError(failure)
	case f.panics:
		panic(missing)
	}
	readable := proto.Clone(failure).(*failurepb.Failure)
	for part := readable; part != nil; part = part.GetCause() {
		if part.EncodedAttributes != nil && f.missingKey(&failurepb.Failure{EncodedAttributes: part.EncodedAttributes}) != nil {
			part.EncodedAttributes, part.Message = nil, missing.Error()
		}
	}
	return f.FailureConverter.FailureToError(readable)
}

// missingKey returns the error of the first key that is missing for a failure and its causes; nil: there is none.
func (f failureConverter) missingKey(failure *failurepb.Failure) *KeyError {
	var missing *KeyError
	_ = proxy.VisitPayloads(context.Background(), failure, proxy.VisitPayloadsOptions{
		Visitor: func(_ *proxy.VisitPayloadsContext, payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
			_, err := f.codec.Decode(payloads)
			if found, ok := errors.AsType[*KeyError](err); ok && missing == nil {
				missing = found
			}
			return payloads, nil
		},
	})
	return missing
}

package temporal

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"
)

const (
	// compressedFrom is the size in bytes from which a payload is compressed. The server rejects a payload of 2 MiB for good, which blocks its workflow;
	// it warns above 512 KiB. Smaller payloads stay readable.
	compressedFrom = 256 << 10
	// maxPayload is the size in bytes that a compressed payload may have. The state of a rollout of 10,000 clusters has a tenth of it; a few kilobytes
	// from another program could fill the memory of a worker.
	maxPayload = 64 << 20
	// encodingZlib is the encoding of the SDK's codec.
	encodingZlib = "binary/zlib"
)

// DataConverter encodes Drydock's payloads as JSON, and compresses long ones with zlib, as the SDK's own codec does. With 10,000 clusters the state
// of a rollout is several megabytes.
func DataConverter() converter.DataConverter { return EncryptedDataConverter(nil) }

// EncryptedDataConverter is DataConverter, which encrypts with keys; nil: it does not encrypt, and reports the key of an encrypted payload.
func EncryptedDataConverter(keys Keys) converter.DataConverter {
	return dataConverter{converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), Codecs(keys)...)}
}

// Codecs encode the payloads of an EncryptedDataConverter. Encryption wraps compression.
func Codecs(keys Keys) []converter.PayloadCodec {
	return []converter.PayloadCodec{encryption{keys}, longPayloads{converter.NewZlibCodec(converter.ZlibCodecOptions{})}}
}

// dataConverter is a data converter for clients and activities, where an error of a key is an error.
type dataConverter struct{ converter.DataConverter }

var _ workflow.ContextAware = dataConverter{}

// WithContext implements workflow.ContextAware.
func (d dataConverter) WithContext(context.Context) converter.DataConverter { return d }

// WithWorkflowContext implements workflow.ContextAware.
func (d dataConverter) WithWorkflowContext(workflow.Context) converter.DataConverter {
	return workflowConverter(d)
}

// workflowConverter is a data converter for workflows. An error would fail the workflow, or lose a signal; a panic fails the workflow task, which Temporal
// retries until the worker has the key.
type workflowConverter struct{ converter.DataConverter }

// FromPayload implements converter.DataConverter.
func (w workflowConverter) FromPayload(payload *commonpb.Payload, value any) error {
	return withoutKeyError(w.DataConverter.FromPayload(payload, value))
}

// FromPayloads implements converter.DataConverter.
func (w workflowConverter) FromPayloads(payloads *commonpb.Payloads, values ...any) error {
	return withoutKeyError(w.DataConverter.FromPayloads(payloads, values...))
}

// withoutKeyError panics with the error of a key, and returns every other.
func withoutKeyError(err error) error {
	if missing, ok := errors.AsType[*KeyError](err); ok {
		panic(missing)
	}
	return err
}

// longPayloads encodes only long payloads.
type longPayloads struct{ converter.PayloadCodec }

// Encode implements converter.PayloadCodec.
func (l longPayloads) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	encoded := slices.Clone(payloads)
	for i, payload := range payloads {
		if len(payload.GetData()) < compressedFrom {
			continue
		}
		compressed, err := l.PayloadCodec.Encode([]*commonpb.Payload{payload})
		if err != nil {
			return nil, err
		}
		encoded[i] = compressed[0]
	}
	return encoded, nil
}

// Decode implements converter.PayloadCodec. The SDK's own has no limit.
func (longPayloads) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	decoded := slices.Clone(payloads)
	for i, payload := range payloads {
		if string(payload.GetMetadata()[converter.MetadataEncoding]) != encodingZlib {
			continue
		}
		compressed, err := zlib.NewReader(bytes.NewReader(payload.GetData()))
		if err != nil {
			return nil, fmt.Errorf("decompress a payload: %w", err)
		}
		plain, err := io.ReadAll(io.LimitReader(compressed, maxPayload+1))
		if err != nil {
			return nil, fmt.Errorf("decompress a payload: %w", err)
		}
		if len(plain) > maxPayload {
			return nil, fmt.Errorf("decompress a payload: it has more than %d MiB", maxPayload>>20)
		}
		decoded[i] = &commonpb.Payload{}
		if err := proto.Unmarshal(plain, decoded[i]); err != nil {
			return nil, fmt.Errorf("decode a compressed payload: %w", err)
		}
	}
	return decoded, nil
}

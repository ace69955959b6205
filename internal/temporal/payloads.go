package temporal

import (
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
)

// compressedFrom is the size in bytes from which a payload is compressed. The server rejects a payload of 2 MiB for good, which blocks its workflow;
// it warns above 512 KiB. Smaller payloads stay readable.
const compressedFrom = 256 << 10

// DataConverter encodes Drydock's payloads as JSON, and compresses long ones with zlib, as the SDK's own codec does. With 10,000 clusters the state
// of a rollout is several megabytes.
func DataConverter() converter.DataConverter {
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), longPayloads{converter.NewZlibCodec(converter.ZlibCodecOptions{})})
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

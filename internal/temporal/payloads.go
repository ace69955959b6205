package temporal

import (
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
)

// compressedFrom is from which size on, in bytes, a payload is compressed. The server refuses one of 2 MiB for good, and what carried it never goes
// on; it warns of 512 KiB. What is smaller stays readable for everybody.
const compressedFrom = 256 << 10

// DataConverter is how Drydock writes and reads what goes through Temporal: as JSON, and what is long compressed with zlib, as the SDK's own
// codec does. With 10,000 clusters the state of a rollout is several megabytes long.
func DataConverter() converter.DataConverter {
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), longPayloads{converter.NewZlibCodec(converter.ZlibCodecOptions{})})
}

// longPayloads has only long payloads encoded.
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

package temporal

import (
	"fmt"
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
)

// Keys encrypt what Temporal stores. A KeyFile has them; a client of a key management service could, too.
type Keys interface {
	// Encrypt encrypts with the current key, and returns the id of that key. It must not wait: workflows call it. A client of a key management service keeps a
	// data key for it.
	Encrypt(plain []byte) (keyID string, encrypted []byte)
	// Decrypt decrypts with the key of an id. Error: KeyError.
	Decrypt(keyID string, encrypted []byte) ([]byte, error)
}

// KeyError is the error of a payload whose key is missing, or differs from the one that encrypted it.
type KeyError struct {
	KeyID string
	// Problem continues the sentence that begins with the key.
	Problem string
}

// Error implements error.
func (e *KeyError) Error() string {
	return fmt.Sprintf("the payload is encrypted with key %q, %s", e.KeyID, e.Problem)
}

// The metadata of an encrypted payload is that of Temporal's samples.
const (
	encodingEncrypted = "binary/encrypted"
	metadataKeyID     = "encryption-key-id"
)

// encryption encrypts whole payloads, with their metadata. Without keys it encrypts none, and reports the key of an encrypted one. Payloads that are not
// encrypted stay valid, so that encryption can be turned on while workflows run, and the Web UI can send signals.
type encryption struct{ keys Keys }

// Encode implements converter.PayloadCodec.
func (e encryption) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	if e.keys == nil {
		return payloads, nil
	}
	encoded := make([]*commonpb.Payload, len(payloads))
	for i, payload := range payloads {
		plain, err := proto.Marshal(payload)
		if err != nil {
			return nil, fmt.Errorf("encrypt a payload: %w", err)
		}
		keyID, encrypted := e.keys.Encrypt(plain)
		encoded[i] = &commonpb.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encodingEncrypted), metadataKeyID: []byte(keyID)}, Data: encrypted,
		}
	}
	return encoded, nil
}

// Decode implements converter.PayloadCodec.
func (e encryption) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	decoded := slices.Clone(payloads)
	for i, payload := range payloads {
		if string(payload.GetMetadata()[converter.MetadataEncoding]) != encodingEncrypted {
			continue
		}
		keyID := string(payload.GetMetadata()[metadataKeyID])
		if e.keys == nil {
			return nil, &KeyError{keyID, "and there are no keys: set --encryption-key-file to the file with this key"}
		}
		plain, err := e.keys.Decrypt(keyID, payload.GetData())
		if err != nil {
			return nil, err
		}
		decoded[i] = &commonpb.Payload{}
		if err := proto.Unmarshal(plain, decoded[i]); err != nil {
			return nil, fmt.Errorf("decode an encrypted payload: %w", err)
		}
	}
	return decoded, nil
}
